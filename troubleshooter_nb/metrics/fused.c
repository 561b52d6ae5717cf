/* One pass over pairs of runs of numbers; see compiled.py. C99 with the vector types of GCC and
 * Clang, and the intrinsics of AVX2 and AVX-512 where the processor has them; no Python headers.
 *
 * Whatever is stored is widened to float32, or to float64 where that does not hold it, a leaf at a
 * time in front of one loop: exactly, and into memory that stays in the first cache.
 *
 * Every sum is formed in the order of metrics.partial: whole rows in leaves of 128 elements with 8
 * accumulators, what is left over as numpy divides it, rows and blocks along a binary tree. Compile with
 * -ffp-contract=off and without -ffast-math, or the bits change.
 */
#include "loops.h"
#include <stddef.h>

#define SUMS 7
#define BINS 2048
#define LEAVES_IN_ROW 64 /* a row is what pairwise_sum leaves to numpy */
#define LEAVES_IN_BLOCK 1024

#define FIRST_VALUES 1024 /* as in thresholds.py */
#define EXPONENTS 96
#define LOWEST (1023 - 63) /* field of the second of partial.EXPONENTS: the first takes all below */
#define SQUARE_BOUND 1e300 /* NaN compares false; squares of what is summed here stay far below */
#define MOST_BLOCKS_LOG2 46

/* Largest values and counts over all elements so far. `equal` is counted of float64 alone: elsewhere
 * an error is 0 where its exponent field is. */
struct seen {
    double left, minus_left, right, minus_right, error, relative, tolerance;
    int64_t left_zero, right_zero, close, equal, error_index;
};
static const struct seen NOTHING = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -1.0, -INFINITY,
                                    -INFINITY, 0, 0, 0, 0, 0};

/* How closeness is judged, and errors counted by exponent: in one histogram (`spread` 0), or in four
 * (3), as neighbours often fall into one bin, and its counter would be waited for. */
struct task {
    double rtol, atol;
    int spread;
    int64_t fields[4][BINS];
};

/* What is stored: the low byte of a code, see compiled.KINDS. The rest tells dtypes of one kind apart;
 * of the last two kinds it is the row of `tables`. */
enum kind {
    LEFT_TO_NUMPY, FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, UINT8, INT16, UINT16, INT32, UINT32,
    INT64, UINT64, BYTE_INTEGER, BYTE_FLOAT, KINDS
};
#define KIND(code) ((enum kind)((code) & 255))
static const int64_t WIDTH[KINDS] = {0, 4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1, 1};
/* What float32 holds; the loop goes over float64 as soon as one side is something else. */
static const int IN_FLOAT32[KINDS] = {0, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1};

typedef void widening(const void *restrict stored, int64_t count, const float *table,
                      void *restrict wide);

/* One side of a pair. */
struct side {
    const char *data;
    int64_t width;
    widening *widen; /* NULL: the loop reads what is stored */
    const float *table;
};

/* What a leaf is widened into. */
union leaf {
    float floats[LEAF];
    double doubles[LEAF];
};

/* `count` values from element `from` on, as the loop reads them. */
INLINE const void *fetch(const struct side *side, int64_t from, int64_t count, void *memory)
{
    const char *stored = side->data + from * side->width;

    if (!side->widen)
        return stored;
    side->widen(stored, count, side->table, memory);
    return memory;
}

INLINE float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE float of_bfloat16(uint16_t stored)
{
    return of_bits((uint32_t)stored << 16);
}

/* Exponents are moved from float16's bias to float32's: further for what is not finite, and
 * subnormals get the hidden bit that they lack, which the subtraction takes away again. */
INLINE float of_float16(uint16_t stored)
{
    uint32_t bits = (uint32_t)(stored & 0x7fff) << 13, sign = (uint32_t)(stored & 0x8000) << 16;
    uint32_t exponent = bits & 0x0f800000, subnormal = exponent ? 0 : 0x00800000;
    float moved;

    bits += 0x38000000 + (exponent == 0x0f800000 ? 0x38000000 : 0) + subnormal;
    moved = of_bits(bits) - of_bits(subnormal ? 0x38800000 : 0);
    memcpy(&bits, &moved, sizeof bits);
    return of_bits(bits | sign);
}

#define AS_IT_IS(x) (x)
#define WIDEN(target, name, stored_type, wide_type, convert)                                         \
    target static void name(const void *restrict stored, int64_t count, const float *table,          \
                            void *restrict wide)                                                     \
    {                                                                                                \
        const stored_type *restrict from = stored;                                                   \
        wide_type *restrict to = wide;                                                               \
        (void)table;                                                                                 \
        for (int64_t i = 0; i < count; i++)                                                          \
            to[i] = (wide_type)convert(from[i]);                                                     \
    }
#define LOOK_UP(x) table[x]
#define WIDENINGS(target, suffix)                                                                    \
    WIDEN(target, bfloat16_##suffix, uint16_t, float, of_bfloat16)                                   \
    WIDEN(target, int8_##suffix, int8_t, float, AS_IT_IS)                                            \
    WIDEN(target, uint8_##suffix, uint8_t, float, AS_IT_IS)                                          \
    WIDEN(target, int16_##suffix, int16_t, float, AS_IT_IS)                                          \
    WIDEN(target, uint16_##suffix, uint16_t, float, AS_IT_IS)                                        \
    WIDEN(target, byte_##suffix, uint8_t, float, LOOK_UP)                                            \
    WIDEN(target, float32_double_##suffix, float, double, AS_IT_IS)                                  \
    WIDEN(target, float16_double_##suffix, uint16_t, double, of_float16)                             \
    WIDEN(target, bfloat16_double_##suffix, uint16_t, double, of_bfloat16)                           \
    WIDEN(target, int8_double_##suffix, int8_t, double, AS_IT_IS)                                    \
    WIDEN(target, uint8_double_##suffix, uint8_t, double, AS_IT_IS)                                  \
    WIDEN(target, int16_double_##suffix, int16_t, double, AS_IT_IS)                                  \
    WIDEN(target, uint16_double_##suffix, uint16_t, double, AS_IT_IS)                                \
    WIDEN(target, int32_double_##suffix, int32_t, double, AS_IT_IS)                                  \
    WIDEN(target, uint32_double_##suffix, uint32_t, double, AS_IT_IS)                                \
    WIDEN(target, int64_double_##suffix, int64_t, double, AS_IT_IS)                                  \
    WIDEN(target, uint64_double_##suffix, uint64_t, double, AS_IT_IS)                                \
    WIDEN(target, byte_double_##suffix, uint8_t, double, LOOK_UP)
/* To float32 and to float64, by `kind`. */
#define WIDENING_TABLE(suffix)                                                                       \
    {{NULL, NULL},                                                                                   \
     {NULL, float32_double_##suffix},                                                                \
     {NULL, NULL},                                                                                   \
     {float16_##suffix, float16_double_##suffix},                                                    \
     {bfloat16_##suffix, bfloat16_double_##suffix},                                                  \
     {int8_##suffix, int8_double_##suffix},                                                          \
     {uint8_##suffix, uint8_double_##suffix},                                                        \
     {int16_##suffix, int16_double_##suffix},                                                        \
     {uint16_##suffix, uint16_double_##suffix},                                                      \
     {NULL, int32_double_##suffix},                                                                  \
     {NULL, uint32_double_##suffix},                                                                 \
     {NULL, int64_double_##suffix},                                                                  \
     {NULL, uint64_double_##suffix},                                                                 \
     {byte_##suffix, byte_double_##suffix},                                                          \
     {byte_##suffix, byte_double_##suffix}}

WIDENINGS(, portable)
WIDEN(, float16_portable, uint16_t, float, of_float16)
static widening *const PORTABLE[KINDS][2] = WIDENING_TABLE(portable);

#ifdef HAS_AVX512
WIDENINGS(WITH_AVX2, avx2)
WIDENINGS(WITH_AVX512, avx512)

WITH_AVX2 static void float16_avx2(const void *restrict stored, int64_t count, const float *table,
                                   void *restrict wide)
{
    const uint16_t *from = stored;
    float *to = wide;
    int64_t i = 0;

    (void)table;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    for (; i < count; i++)
        to[i] = of_float16(from[i]);
}

WITH_AVX512 static void float16_avx512(const void *restrict stored, int64_t count,
                                       const float *table, void *restrict wide)
{
    (void)table;
    for (int64_t i = 0; i < count; i += 16) {
        __mmask16 here = count - i < 16 ? (__mmask16)((1u << (count - i)) - 1) : 0xffff;
        __m256i bits = _mm256_maskz_loadu_epi16(here, (const uint16_t *)stored + i);
        _mm512_mask_storeu_ps((float *)wide + i, here, _mm512_cvtph_ps(bits));
    }
}

static widening *const AVX2[KINDS][2] = WIDENING_TABLE(avx2);
static widening *const AVX512[KINDS][2] = WIDENING_TABLE(avx512);
#define WIDENINGS_OF(version)                                                                        \
    ((version) == AVX512_VERSION ? AVX512 : (version) == AVX2_VERSION ? AVX2 : PORTABLE)
#else
#define WIDENINGS_OF(version) PORTABLE
#endif

INLINE reals magnitude(reals a)
{
    return (reals)((bits)a & INT64_MAX);
}

/* How many are true, which is -1 in a vector. */
INLINE int64_t total(bits truths)
{
    return -(truths[0] + truths[1] + truths[2] + truths[3]);
}

/* What of a run and of the one after it. */
static void add_seen(struct seen *all, const struct seen *more)
{
    double *a = &all->left;
    const double *b = &more->left;

    if (more->error > all->error)
        all->error_index = more->error_index;
    for (int i = 0; i < 7; i++)
        a[i] = b[i] > a[i] ? b[i] : a[i];
    all->left_zero += more->left_zero;
    all->right_zero += more->right_zero;
    all->close += more->close;
    all->equal += more->equal;
}

INLINE void count_error(int64_t *bins, double error)
{
    int64_t field;
    memcpy(&field, &error, sizeof field);
    bins[field >> 52]++;
}

/* The sums of one pair of elements, and all else about it. */
INLINE void element(double a, double b, int64_t at, struct task *task, double *sums,
                    struct seen *seen)
{
    double reference = fabs(b), error = fabs(a - b);
    double relative = reference == 0.0 ? 0.0 : error / reference;
    double tolerance = error / (reference + 1.0);
    double of[SUMS] = {a, a * a, b, b * b, error, error * error, relative};

    memcpy(sums, of, sizeof of);
    seen->left = a > seen->left ? a : seen->left;
    seen->minus_left = -a > seen->minus_left ? -a : seen->minus_left;
    seen->right = b > seen->right ? b : seen->right;
    seen->minus_right = -b > seen->minus_right ? -b : seen->minus_right;
    seen->relative = relative > seen->relative ? relative : seen->relative;
    seen->tolerance = tolerance > seen->tolerance ? tolerance : seen->tolerance;
    seen->left_zero += a == 0.0;
    seen->right_zero += b == 0.0;
    seen->close += error <= reference * task->rtol + task->atol;
    seen->equal += error == 0.0;
    if (error > seen->error) {
        seen->error = error;
        seen->error_index = at;
    }
    count_error(task->fields[0], error);
}

/* Leaves of `length` elements, a multiple of 8, from element `from` on: their sums into `table`, the
 * rest into `seen` and `task`. 0 at the first NaN or infinity, or at squares that may leave float64's
 * range. */
INLINE int leaves_of_vectors(const struct side *left, const struct side *right, int64_t from,
                             int64_t leaves, const int length, struct task *task,
                             double *restrict table, struct seen *restrict seen,
                             const int doubles)
{
    const reals none = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, one = {1.0, 1.0, 1.0, 1.0};
    const double rtol = task->rtol, atol = task->atol;
    reals top_a = none, top_minus_a = none, top_b = none, top_minus_b = none;
    reals top_relative = none, top_tolerance = none;
    bits zero_a = {0}, zero_b = {0}, close = {0}, equal = {0};
    double error[LEAF];
    union leaf memory[2];

    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        const int64_t start = from + leaf * length;
        const void *xs = fetch(left, start, length, memory), *ys = fetch(right, start, length, memory + 1);
        double halves[2][SUMS], leaf_error = -1.0;
        /* Half of the accumulators at a time: all of them do not fit the registers. */
        for (int half = 0; half < 2; half++) {
            reals sum[SUMS] = {{0}}, top_error = {0};
            for (int k = 0; k < length; k += LANES) {
                reals a = four(xs, k + half * HALF, doubles), b = four(ys, k + half * HALF, doubles);
                reals reference = magnitude(b), d = magnitude(a - b);
                bits zero = (bits)(b == 0.0);
                reals relative = (reals)((bits)d & ~zero) /
                                 (reals)(((bits)reference & ~zero) | ((bits)one & zero));
                reals tolerance = d / (reference + 1.0);
                sum[0] += a;
                sum[1] += a * a;
                sum[2] += b;
                sum[3] += b * b;
                sum[4] += d;
                sum[5] += d * d;
                sum[6] += relative;
                zero_a += (bits)(a == 0.0);
                zero_b += zero;
                close += (bits)(d <= reference * rtol + atol);
                if (doubles)
                    equal += (bits)(d == 0.0);
                top_error = larger(d, top_error);
                top_a = larger(a, top_a);
                top_minus_a = larger(-a, top_minus_a);
                top_b = larger(b, top_b);
                top_minus_b = larger(-b, top_minus_b);
                top_relative = larger(relative, top_relative);
                top_tolerance = larger(tolerance, top_tolerance);
                memcpy(error + k + half * HALF, &d, sizeof d);
            }
            for (int s = 0; s < SUMS; s++)
                halves[half][s] = (sum[s][0] + sum[s][1]) + (sum[s][2] + sum[s][3]);
            leaf_error = largest(top_error) > leaf_error ? largest(top_error) : leaf_error;
        }
        for (int s = 0; s < SUMS; s++)
            table[s * leaves + leaf] = halves[0][s] + halves[1][s];
        if (!(table[leaves + leaf] < SQUARE_BOUND && table[3 * leaves + leaf] < SQUARE_BOUND))
            return 0;
        if (leaf_error > seen->error) {
            seen->error = leaf_error;
            for (seen->error_index = start; error[seen->error_index - start] != leaf_error;)
                seen->error_index++;
        }
        for (int i = 0; i < length; i += 4)
            for (int j = 0; j < 4; j++)
                count_error(task->fields[j & task->spread], error[i + j]);
    }
    const struct seen more = {largest(top_a), largest(top_minus_a), largest(top_b),
                              largest(top_minus_b), -1.0, largest(top_relative),
                              largest(top_tolerance), total(zero_a), total(zero_b), total(close),
                              total(equal), 0};
    add_seen(seen, &more);
    return 1;
}

static int leaves_portable(const struct side *left, const struct side *right,
                           int64_t from, int64_t leaves, int length, struct task *task,
                           double *restrict table, struct seen *restrict seen, int doubles)
{
    return doubles ? leaves_of_vectors(left, right, from, leaves, length, task, table, seen, 1)
                   : leaves_of_vectors(left, right, from, leaves, length, task, table, seen, 0);
}

#ifdef HAS_AVX512
#define MOST_ROWS 32 /* comparing with so many exponents still beats going element by element */

/* As count_leaf, of the errors themselves. */
WITH_AVX2 static inline void count_errors_of_leaf(const double *errors, int length, double top,
                                                  int64_t *fields)
{
    __m256i of[8], low = _mm256_set1_epi16(-1);
    int64_t first, last;

    if (length < LEAF) {
        for (int i = 0; i < length; i++)
            count_error(fields, errors[i]);
        return;
    }
    memcpy(&last, &top, sizeof last);
    last >>= 52;
    for (int i = 0; i < 8; i++) {
        __m256i upper[2];
        for (int j = 0; j < 2; j++) { /* the upper halves of 8 errors, in any order */
            __m256 some = _mm256_castpd_ps(_mm256_loadu_pd(errors + 16 * i + 8 * j));
            __m256 more = _mm256_castpd_ps(_mm256_loadu_pd(errors + 16 * i + 8 * j + 4));
            upper[j] = _mm256_srli_epi32(_mm256_castps_si256(_mm256_shuffle_ps(some, more, 0xdd)), 20);
        }
        of[i] = _mm256_packus_epi32(upper[0], upper[1]);
        low = _mm256_min_epu16(low, _mm256_sub_epi16(of[i], _mm256_set1_epi16(1)));
    }
    __m128i few = _mm_min_epu16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    first = _mm_extract_epi16(_mm_minpos_epu16(few), 0) + 1;
    if (last - first >= MOST_ROWS) {
        for (int i = 0; i < LEAF; i++)
            count_error(fields, errors[i]);
        return;
    }
    __m256i above[4];
    for (int i = 0; i < 4; i++) {
        __m256i lower = _mm256_sub_epi16(of[2 * i], _mm256_set1_epi16((short)first));
        __m256i upper = _mm256_sub_epi16(of[2 * i + 1], _mm256_set1_epi16((short)first));
        above[i] = _mm256_packus_epi16(_mm256_min_epu16(lower, _mm256_set1_epi16(255)),
                                       _mm256_min_epu16(upper, _mm256_set1_epi16(255)));
    }
    int64_t left_over = LEAF;
    for (int64_t e = 0; e <= last - first; e++) {
        __m256i wanted = _mm256_set1_epi8((char)e);
        uint64_t found[4];
        for (int i = 0; i < 4; i++)
            found[i] = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(above[i], wanted));
        int64_t count = __builtin_popcountll(found[0] | found[1] << 32) +
                        __builtin_popcountll(found[2] | found[3] << 32);
        fields[first + e] += count;
        left_over -= count;
    }
    fields[0] += left_over;
}

WITH_AVX2 INLINE double largest_of(__m256d a)
{
    __m128d halves = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_max_sd(halves, _mm_unpackhi_pd(halves, halves)));
}

WITH_AVX2 INLINE double largest_of_floats(__m256 a)
{
    __m256d wide = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    return largest_of(_mm256_max_pd(wide, _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1))));
}

/* The other way round: what was smallest. */
WITH_AVX2 INLINE double largest_of_negated(__m256 floats, __m256d doubles_, int doubles)
{
    return doubles ? largest_of(_mm256_xor_pd(doubles_, _mm256_set1_pd(-0.0)))
                   : largest_of_floats(_mm256_xor_ps(floats, _mm256_set1_ps(-0.0f)));
}

/* How many were subtracted as -1, in lanes of 32 or 64 bits. */
WITH_AVX2 INLINE int64_t counted(__m256i counts, int wide)
{
    int64_t sum = 0, of_64[4];
    int32_t of_32[8];

    memcpy(of_64, &counts, sizeof of_64);
    memcpy(of_32, &counts, sizeof of_32);
    for (int i = 0; i < (wide ? 4 : 8); i++)
        sum += wide ? of_64[i] : of_32[i];
    return sum;
}

/* As leaves_of_vectors. */
WITH_AVX2 INLINE int leaves_of_avx2(const struct side *left, const struct side *right, int64_t from,
                                    int64_t leaves, const int length, struct task *task,
                                    double *restrict table, struct seen *restrict seen,
                                    const int doubles)
{
    const __m256d one = _mm256_set1_pd(1.0), zero = _mm256_setzero_pd();
    const __m256d sign = _mm256_set1_pd(-0.0);
    const __m256d rtols = _mm256_set1_pd(task->rtol), atols = _mm256_set1_pd(task->atol);
    const __m256 zeros = _mm256_setzero_ps();
    __m256 left_max = _mm256_set1_ps(-INFINITY), left_min = _mm256_set1_ps(INFINITY);
    __m256 right_max = left_max, right_min = left_min;
    __m256d left_top = _mm256_set1_pd(-INFINITY), left_low = _mm256_set1_pd(INFINITY);
    __m256d right_top = left_top, right_low = left_low, top_relative = left_top;
    __m256i left_zero = _mm256_setzero_si256(), right_zero = left_zero;
    __m256i close = left_zero, equal = left_zero;
    struct seen more = NOTHING;
    double top_tolerance = seen->tolerance;
    double errors[LEAF];
    union leaf memory[2];

    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        const int64_t start = from + leaf * length;
        const void *xs = fetch(left, start, length, memory), *ys = fetch(right, start, length, memory + 1);
        const float *x = xs, *y = ys;
        const double *wide_x = xs, *wide_y = ys;
        /* A tolerance is divided only where it may be the largest: there is room for rounding. */
        const __m256d low = _mm256_set1_pd(top_tolerance * (1.0 - 0x1p-40));
        __m256d halves[2][SUMS], top = zero, over = zero;

        for (int k = 0; k < length && !doubles; k += LANES) {
            __m256 a = _mm256_loadu_ps(x + k), b = _mm256_loadu_ps(y + k);
            left_max = _mm256_max_ps(left_max, a);
            left_min = _mm256_min_ps(left_min, a);
            right_max = _mm256_max_ps(right_max, b);
            right_min = _mm256_min_ps(right_min, b);
            left_zero = _mm256_sub_epi32(
                left_zero, _mm256_castps_si256(_mm256_cmp_ps(a, zeros, _CMP_EQ_OQ)));
            right_zero = _mm256_sub_epi32(
                right_zero, _mm256_castps_si256(_mm256_cmp_ps(b, zeros, _CMP_EQ_OQ)));
        }
        /* Half of the accumulators at a time: all of them do not fit the registers. */
        for (int half = 0; half < LANES; half += HALF) {
            __m256d sum[SUMS];
            for (int s = 0; s < SUMS; s++)
                sum[s] = zero;
            for (int k = half; k < length; k += LANES) {
                __m256d a, b;
                if (doubles) {
                    a = _mm256_loadu_pd(wide_x + k);
                    b = _mm256_loadu_pd(wide_y + k);
                    left_top = _mm256_max_pd(left_top, a);
                    left_low = _mm256_min_pd(left_low, a);
                    right_top = _mm256_max_pd(right_top, b);
                    right_low = _mm256_min_pd(right_low, b);
                } else {
                    a = _mm256_cvtps_pd(_mm_loadu_ps(x + k));
                    b = _mm256_cvtps_pd(_mm_loadu_ps(y + k));
                }
                __m256d reference = _mm256_andnot_pd(sign, b);
                __m256d error = _mm256_andnot_pd(sign, _mm256_sub_pd(a, b));
                __m256d not_zero = _mm256_cmp_pd(reference, zero, _CMP_NEQ_UQ);
                __m256d relative = _mm256_and_pd(not_zero, _mm256_div_pd(error, reference));
                __m256d limit = _mm256_add_pd(_mm256_mul_pd(reference, rtols), atols);
                __m256d bound = _mm256_mul_pd(_mm256_add_pd(reference, one), low);
                if (doubles) {
                    left_zero = _mm256_sub_epi64(
                        left_zero, _mm256_castpd_si256(_mm256_cmp_pd(a, zero, _CMP_EQ_OQ)));
                    right_zero = _mm256_sub_epi64(
                        right_zero, _mm256_castpd_si256(_mm256_cmp_pd(b, zero, _CMP_EQ_OQ)));
                    equal = _mm256_sub_epi64(
                        equal, _mm256_castpd_si256(_mm256_cmp_pd(error, zero, _CMP_EQ_OQ)));
                }
                sum[0] = _mm256_add_pd(sum[0], a);
                sum[1] = _mm256_add_pd(sum[1], _mm256_mul_pd(a, a));
                sum[2] = _mm256_add_pd(sum[2], b);
                sum[3] = _mm256_add_pd(sum[3], _mm256_mul_pd(b, b));
                sum[4] = _mm256_add_pd(sum[4], error);
                sum[5] = _mm256_add_pd(sum[5], _mm256_mul_pd(error, error));
                sum[6] = _mm256_add_pd(sum[6], relative);
                close = _mm256_sub_epi64(
                    close, _mm256_castpd_si256(_mm256_cmp_pd(error, limit, _CMP_LE_OQ)));
                over = _mm256_or_pd(over, _mm256_cmp_pd(error, bound, _CMP_GT_OQ));
                top = _mm256_max_pd(error, top);
                top_relative = _mm256_max_pd(relative, top_relative);
                _mm256_storeu_pd(errors + k, error);
            }
            memcpy(halves[half / HALF], sum, sizeof sum);
        }
        for (int s = 0; s < SUMS; s++) {
            /* Neighbours first, both halves side by side. */
            __m256d pairs = _mm256_hadd_pd(halves[0][s], halves[1][s]);
            __m128d both = _mm_add_pd(_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd(pairs, 1));
            table[s * leaves + leaf] = _mm_cvtsd_f64(both) + _mm_cvtsd_f64(_mm_unpackhi_pd(both, both));
        }
        if (!(table[leaves + leaf] < SQUARE_BOUND && table[3 * leaves + leaf] < SQUARE_BOUND))
            return 0;
        if (_mm256_movemask_pd(over))
            for (int i = 0; i < length; i++) {
                double tolerance = errors[i] / (fabs(value(ys, i, doubles)) + 1.0);
                top_tolerance = tolerance > top_tolerance ? tolerance : top_tolerance;
            }
        double leaf_error = largest_of(top);
        if (leaf_error > seen->error) {
            int worst = 0;
            while (errors[worst] != leaf_error)
                worst++;
            seen->error = leaf_error;
            seen->error_index = start + worst;
        }
        count_errors_of_leaf(errors, length, leaf_error, task->fields[0]);
    }
    more.left = doubles ? largest_of(left_top) : largest_of_floats(left_max);
    more.minus_left = largest_of_negated(left_min, left_low, doubles);
    more.right = doubles ? largest_of(right_top) : largest_of_floats(right_max);
    more.minus_right = largest_of_negated(right_min, right_low, doubles);
    more.relative = largest_of(top_relative);
    more.tolerance = top_tolerance;
    more.left_zero = counted(left_zero, doubles);
    more.right_zero = counted(right_zero, doubles);
    more.close = counted(close, 1);
    more.equal = counted(equal, 1);
    add_seen(seen, &more);
    return 1;
}

WITH_AVX2 static int leaves_avx2(const struct side *left, const struct side *right, int64_t from,
                                 int64_t leaves, int length, struct task *task,
                                 double *restrict table, struct seen *restrict seen, int doubles)
{
    if (length < LEAF)
        return doubles ? leaves_of_avx2(left, right, from, 1, length, task, table, seen, 1)
                       : leaves_of_avx2(left, right, from, 1, length, task, table, seen, 0);
    return doubles ? leaves_of_avx2(left, right, from, leaves, LEAF, task, table, seen, 1)
                   : leaves_of_avx2(left, right, from, leaves, LEAF, task, table, seen, 0);
}

#define VECTOR 16 /* float32 */

/* Count the errors of a leaf by exponent: each exponent that may occur is compared with all of them
 * at once, as the errors of one leaf seldom differ in many. */
WITH_AVX512 static inline void count_leaf(const uint16_t *exponent, int length, double top,
                                          int64_t *fields)
{
    __m512i of[4], low = _mm512_set1_epi16(-1);
    uint16_t lowest[32];
    int64_t first, last;

    memcpy(&last, &top, sizeof last);
    last >>= 52;
    for (int i = 0; i < 4; i++) {
        of[i] = _mm512_loadu_si512(exponent + 32 * i);
        /* One less: a zero, which is counted apart, becomes the largest. */
        low = _mm512_min_epu16(low, _mm512_sub_epi16(of[i], _mm512_set1_epi16(1)));
    }
    low = _mm512_min_epu16(low, _mm512_shuffle_i64x2(low, low, 0x4e));
    _mm512_storeu_si512(lowest, low);
    __m128i few = _mm_min_epu16(_mm_loadu_si128((__m128i *)lowest),
                                _mm_loadu_si128((__m128i *)(lowest + 8)));
    first = _mm_extract_epi16(_mm_minpos_epu16(few), 0) + 1;
    if (length < LEAF || last - first >= MOST_ROWS) {
        for (int i = 0; i < length; i++)
            fields[exponent[i]]++;
        return;
    }
    /* How far above the first, in bytes; a zero becomes 255. */
    __m256i above[4];
    for (int i = 0; i < 4; i++)
        above[i] = _mm512_cvtusepi16_epi8(_mm512_sub_epi16(of[i], _mm512_set1_epi16((short)first)));
    __m512i lower = _mm512_inserti64x4(_mm512_castsi256_si512(above[0]), above[1], 1);
    __m512i upper = _mm512_inserti64x4(_mm512_castsi256_si512(above[2]), above[3], 1);
    int64_t left_over = LEAF;
    for (int64_t e = 0; e <= last - first; e++) {
        __m512i wanted = _mm512_set1_epi8((char)e);
        int64_t count = __builtin_popcountll(_mm512_cmpeq_epi8_mask(lower, wanted)) +
                        __builtin_popcountll(_mm512_cmpeq_epi8_mask(upper, wanted));
        fields[first + e] += count;
        left_over -= count;
    }
    fields[0] += left_over;
}

/* Counters in lanes of 32 and 64 bits. */
WITH_AVX512 INLINE __m512i count_mask16(__m512i counts, __mmask16 true_lanes)
{
    return _mm512_mask_add_epi32(counts, true_lanes, counts, _mm512_set1_epi32(1));
}

WITH_AVX512 INLINE __m512i count_mask8(__m512i counts, __mmask8 true_lanes)
{
    return _mm512_mask_add_epi64(counts, true_lanes, counts, _mm512_set1_epi64(1));
}

/* As leaves_of_vectors. */
WITH_AVX512 INLINE int leaves_of_avx512(const struct side *left, const struct side *right,
                                        int64_t from, int64_t leaves, const int length,
                                        struct task *task, double *restrict table,
                                        struct seen *restrict seen, const int doubles)
{
    const __m512d one = _mm512_set1_pd(1.0), zero = _mm512_setzero_pd();
    const __m512d rtols = _mm512_set1_pd(task->rtol), atols = _mm512_set1_pd(task->atol);
    const __m512 zeros = _mm512_setzero_ps();
    __m512 left_max = _mm512_set1_ps(-INFINITY), left_min = _mm512_set1_ps(INFINITY);
    __m512 right_max = left_max, right_min = left_min;
    __m512d left_top = _mm512_set1_pd(-INFINITY), left_low = _mm512_set1_pd(INFINITY);
    __m512d right_top = left_top, right_low = left_low, top_relative = left_top;
    __m512i left_zero = _mm512_setzero_si512(), right_zero = left_zero;
    __m512i close = left_zero, equal = left_zero;
    struct seen more = NOTHING;
    double top_tolerance = seen->tolerance;
    uint16_t exponent[LEAF];
    union leaf memory[2];

    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        const int64_t start = from + leaf * length;
        const void *xs = fetch(left, start, length, memory), *ys = fetch(right, start, length, memory + 1);
        const float *x = xs, *y = ys;
        const double *wide_x = xs, *wide_y = ys;
        /* A tolerance is divided only where it may be the largest: there is room for rounding. */
        const __m512d low = _mm512_set1_pd(top_tolerance * (1.0 - 0x1p-40));
        __m512d sum[SUMS], top = zero;
        __mmask8 over = 0;

        for (int s = 0; s < SUMS; s++)
            sum[s] = zero;
        for (int k = 0; k < length && !doubles; k += VECTOR) {
            const __mmask16 here = length - k < VECTOR ? 0xff : 0xffff;
            __m512 a = _mm512_maskz_loadu_ps(here, x + k), b = _mm512_maskz_loadu_ps(here, y + k);
            left_max = _mm512_mask_max_ps(left_max, here, left_max, a);
            left_min = _mm512_mask_min_ps(left_min, here, left_min, a);
            right_max = _mm512_mask_max_ps(right_max, here, right_max, b);
            right_min = _mm512_mask_min_ps(right_min, here, right_min, b);
            /* No popcount of a short mask: GCC 12 reads one that it put on the stack as 32 bits. */
            left_zero = count_mask16(left_zero, _mm512_mask_cmp_ps_mask(here, a, zeros, _CMP_EQ_OQ));
            right_zero = count_mask16(right_zero, _mm512_mask_cmp_ps_mask(here, b, zeros, _CMP_EQ_OQ));
        }
        for (int k = 0; k < length; k += LANES) {
            __m512d a, b;
            if (doubles) {
                a = _mm512_loadu_pd(wide_x + k);
                b = _mm512_loadu_pd(wide_y + k);
                left_top = _mm512_max_pd(left_top, a);
                left_low = _mm512_min_pd(left_low, a);
                right_top = _mm512_max_pd(right_top, b);
                right_low = _mm512_min_pd(right_low, b);
            } else {
                a = _mm512_cvtps_pd(_mm256_loadu_ps(x + k));
                b = _mm512_cvtps_pd(_mm256_loadu_ps(y + k));
            }
            __m512d reference = _mm512_abs_pd(b), error = _mm512_abs_pd(_mm512_sub_pd(a, b));
            __mmask8 not_zero = _mm512_cmp_pd_mask(reference, zero, _CMP_NEQ_UQ);
            __m512d relative = _mm512_maskz_div_pd(not_zero, error, reference);
            __m512d limit = _mm512_add_pd(_mm512_mul_pd(reference, rtols), atols);
            __m512d bound = _mm512_mul_pd(_mm512_add_pd(reference, one), low);
            if (doubles) {
                left_zero = count_mask8(left_zero, _mm512_cmp_pd_mask(a, zero, _CMP_EQ_OQ));
                right_zero = count_mask8(right_zero, _mm512_cmp_pd_mask(b, zero, _CMP_EQ_OQ));
                equal = count_mask8(equal, _mm512_cmp_pd_mask(error, zero, _CMP_EQ_OQ));
            }
            sum[0] = _mm512_add_pd(sum[0], a);
            sum[1] = _mm512_add_pd(sum[1], _mm512_mul_pd(a, a));
            sum[2] = _mm512_add_pd(sum[2], b);
            sum[3] = _mm512_add_pd(sum[3], _mm512_mul_pd(b, b));
            sum[4] = _mm512_add_pd(sum[4], error);
            sum[5] = _mm512_add_pd(sum[5], _mm512_mul_pd(error, error));
            sum[6] = _mm512_add_pd(sum[6], relative);
            __mmask8 is_close = _mm512_cmp_pd_mask(error, limit, _CMP_LE_OQ);
            __m512i field = _mm512_srli_epi64(_mm512_castpd_si512(error), 52);
            over |= _mm512_cmp_pd_mask(error, bound, _CMP_GT_OQ);
            close = count_mask8(close, is_close);
            top = _mm512_max_pd(error, top);
            top_relative = _mm512_max_pd(relative, top_relative);
            _mm_storeu_si128((__m128i *)(exponent + k), _mm512_cvtepi64_epi16(field));
        }
        for (int s = 0; s < SUMS; s++)
            table[s * leaves + leaf] = sum_of_lanes(sum[s]);
        if (!(table[leaves + leaf] < SQUARE_BOUND && table[3 * leaves + leaf] < SQUARE_BOUND))
            return 0;
        if (over)
            for (int i = 0; i < length; i++) {
                double a = value(xs, i, doubles), b = value(ys, i, doubles);
                double tolerance = fabs(a - b) / (fabs(b) + 1.0);
                top_tolerance = tolerance > top_tolerance ? tolerance : top_tolerance;
            }
        double leaf_error = _mm512_reduce_max_pd(top);
        if (leaf_error > seen->error) {
            int worst = 0;
            while (fabs(value(xs, worst, doubles) - value(ys, worst, doubles)) != leaf_error)
                worst++;
            seen->error = leaf_error;
            seen->error_index = start + worst;
        }
        count_leaf(exponent, length, leaf_error, task->fields[0]);
    }
    more.left = doubles ? _mm512_reduce_max_pd(left_top) : _mm512_reduce_max_ps(left_max);
    more.minus_left = -(doubles ? _mm512_reduce_min_pd(left_low) : _mm512_reduce_min_ps(left_min));
    more.right = doubles ? _mm512_reduce_max_pd(right_top) : _mm512_reduce_max_ps(right_max);
    more.minus_right = -(doubles ? _mm512_reduce_min_pd(right_low) : _mm512_reduce_min_ps(right_min));
    more.relative = _mm512_reduce_max_pd(top_relative);
    more.tolerance = top_tolerance;
    more.left_zero = doubles ? _mm512_reduce_add_epi64(left_zero) : _mm512_reduce_add_epi32(left_zero);
    more.right_zero =
        doubles ? _mm512_reduce_add_epi64(right_zero) : _mm512_reduce_add_epi32(right_zero);
    more.close = _mm512_reduce_add_epi64(close);
    more.equal = _mm512_reduce_add_epi64(equal);
    add_seen(seen, &more);
    return 1;
}

WITH_AVX512 static int leaves_avx512(const struct side *left, const struct side *right,
                                     int64_t from, int64_t leaves, int length, struct task *task,
                                     double *restrict table, struct seen *restrict seen,
                                     int doubles)
{
    if (length < LEAF)
        return doubles ? leaves_of_avx512(left, right, from, 1, length, task, table, seen, 1)
                       : leaves_of_avx512(left, right, from, 1, length, task, table, seen, 0);
    return doubles ? leaves_of_avx512(left, right, from, leaves, LEAF, task, table, seen, 1)
                   : leaves_of_avx512(left, right, from, leaves, LEAF, task, table, seen, 0);
}
#endif

static int some_leaves(const struct side *left, const struct side *right, int64_t from,
                       int64_t leaves, int length, struct task *task, double *restrict table,
                       struct seen *restrict seen, int doubles, enum version version)
{
#ifdef HAS_AVX512
    if (version == AVX512_VERSION)
        return leaves_avx512(left, right, from, leaves, length, task, table, seen, doubles);
    if (version == AVX2_VERSION)
        return leaves_avx2(left, right, from, leaves, length, task, table, seen, doubles);
#endif
    return leaves_portable(left, right, from, leaves, length, task, table, seen, doubles);
}

/* Sums of a range of any length, divided as numpy's reduction divides it; the sums of squares are NaN
 * or beyond SQUARE_BOUND where `leaves_of_vectors` gives 0. */
static void any_length(const struct side *left, const struct side *right, int64_t from,
                       int64_t size, struct task *task, double *sums, struct seen *seen,
                       int doubles, enum version version)
{
    const int64_t whole = size - size % LANES;
    double more[SUMS];

    if (size > LEAF) {
        int64_t first = size / 2 - size / 2 % LANES;
        any_length(left, right, from, first, task, sums, seen, doubles, version);
        any_length(left, right, from + first, size - first, task, more, seen, doubles, version);
        for (int s = 0; s < SUMS; s++)
            sums[s] += more[s];
        return;
    }
    memset(sums, 0, SUMS * sizeof *sums);
    if (whole)
        some_leaves(left, right, from, 1, (int)whole, task, sums, seen, doubles, version);
    if (whole < size) {
        union leaf memory[2];
        const void *x = fetch(left, from + whole, size - whole, memory);
        const void *y = fetch(right, from + whole, size - whole, memory + 1);
        for (int64_t i = 0; i < size - whole; i++) {
            double a = value(x, i, doubles), b = value(y, i, doubles);
            element(a, b, from + whole + i, task, more, seen);
            for (int s = 0; s < SUMS; s++)
                sums[s] += more[s];
        }
    }
}

/* The sums of one block, which may be shorter than others; 0 where it is left to numpy. */
static int block_sums(const struct side *left, const struct side *right, int64_t from,
                      int64_t size, struct task *task, double *restrict sums,
                      struct seen *restrict seen, int doubles, enum version version)
{
    double table[SUMS * LEAVES_IN_BLOCK], rest[SUMS];
    int64_t rows = size / (LEAF * LEAVES_IN_ROW), leaves = rows * LEAVES_IN_ROW;

    if (rows && !some_leaves(left, right, from, leaves, LEAF, task, table, seen, doubles,
                             version))
        return 0;
    for (int s = 0; s < SUMS && rows; s++) {
        double row_sums[LEAVES_IN_BLOCK / LEAVES_IN_ROW];
        for (int64_t row = 0; row < rows; row++)
            row_sums[row] = tree_sum(table + s * leaves + row * LEAVES_IN_ROW, LEAVES_IN_ROW);
        sums[s] = tree_sum(row_sums, rows);
    }
    if (size > leaves * LEAF) {
        any_length(left, right, from + leaves * LEAF, size - leaves * LEAF, task, rest, seen,
                   doubles, version);
        for (int s = 0; s < SUMS; s++)
            sums[s] = rows ? sums[s] + rest[s] : rest[s];
    }
    for (int s = 0; s < SUMS; s++)
        sums[s] += 0.0; /* -0.0 only where all are: numpy begins with 0.0 */
    return sums[1] < SQUARE_BOUND && sums[3] < SQUARE_BOUND;
}

/* The inner product of a range of any length, divided as numpy's reduction divides it. */
static double any_product(const struct side *left, const struct side *right, int64_t from,
                          int64_t size, int doubles)
{
    double lane[LANES] = {0}, sum;
    union leaf memory[2];
    int64_t i = 0;

    if (size > LEAF) {
        int64_t first = size / 2 - size / 2 % LANES;
        sum = any_product(left, right, from, first, doubles);
        return sum + any_product(left, right, from + first, size - first, doubles);
    }
    const void *x = fetch(left, from, size, memory), *y = fetch(right, from, size, memory + 1);
    for (; i < size - size % LANES; i++)
        lane[i % LANES] += value(x, i, doubles) * value(y, i, doubles);
    sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; i < size; i++)
        sum += value(x, i, doubles) * value(y, i, doubles);
    return sum;
}

static double block_product(const struct side *left, const struct side *right, int64_t from,
                            int64_t size, int doubles)
{
    const int64_t row = LEAF * LEAVES_IN_ROW, rows = size / row;
    double sums[LEAVES_IN_BLOCK / LEAVES_IN_ROW] = {0};

    for (int64_t i = 0; i < rows; i++)
        sums[i] = any_product(left, right, from + i * row, row, doubles);
    return (rows ? tree_sum(sums, rows) : 0.0) +
           any_product(left, right, from + rows * row, size - rows * row, doubles);
}

/* Whether metrics.partial.scale_exponent is 0: squares neither overflow nor vanish. */
static int squares_hold(double largest)
{
    return largest == 0.0 || (0x1p-400 < largest && largest < 0x1p400);
}

/* Whether float64 computes what numpy does: it scales what is very large or small, and subtracts
 * integers of 64 bits exactly, which float64 holds below 2**53. */
static int float64_holds(const struct seen *seen, int64_t left_code, int64_t right_code)
{
    enum kind left = KIND(left_code), right = KIND(right_code);
    double a = fmax(seen->left, seen->minus_left), b = fmax(seen->right, seen->minus_right);
    int integers = left >= INT8 && left <= BYTE_INTEGER && right >= INT8 && right <= BYTE_INTEGER;

    if (integers && (WIDTH[left] == 8 || WIDTH[right] == 8) && !(a < 0x1p53 && b < 0x1p53))
        return 0;
    return squares_hold(a) && squares_hold(b) && squares_hold(seen->error);
}

/* All bits of a range, or-ed. */
#define ANY_BITS(name, type)                                                                         \
    VECTORISED static uint64_t name(const char *data, int64_t count)                                 \
    {                                                                                                \
        const type *values = (const type *)data;                                                     \
        type seen = 0;                                                                               \
        for (int64_t i = 0; i < count; i++)                                                          \
            seen |= values[i];                                                                       \
        return seen;                                                                                 \
    }
ANY_BITS(bits_of_1, uint8_t)
ANY_BITS(bits_of_2, uint16_t)
ANY_BITS(bits_of_4, uint32_t)
ANY_BITS(bits_of_8, uint64_t)

static uint64_t any_bits(const char *data, int64_t width, int64_t count)
{
    return width == 1   ? bits_of_1(data, count)
           : width == 2 ? bits_of_2(data, count)
           : width == 4 ? bits_of_4(data, count)
                        : bits_of_8(data, count);
}

/* metrics.summary.bits_seen: 0 of integers, and once the lowest bit was seen the rest tells nothing. */
static uint64_t bits_seen(const struct side *side, int64_t code, int64_t from, int64_t size)
{
    enum kind kind = KIND(code);
    const char *data = side->data + from * side->width;
    int64_t first = size < FIRST_VALUES ? size : FIRST_VALUES;
    uint64_t seen;

    if (kind > BFLOAT16 && kind != BYTE_FLOAT)
        return 0;
    seen = any_bits(data, side->width, first);
    if (seen & 1)
        return seen;
    return seen | any_bits(data + first * side->width, side->width, size - first);
}

/* Sums along metrics.partial.merge_tree: those of whole branches, the last of which may grow. */
struct branches {
    double sums[MOST_BLOCKS_LOG2][SUMS + 1];
    int count;
};

static void join_last_two(struct branches *tree)
{
    tree->count--;
    for (int s = 0; s <= SUMS; s++)
        tree->sums[tree->count - 1][s] += tree->sums[tree->count][s];
}

/* One pair as it is handed in, and whether it was measured. */
struct pair {
    const char *left, *right;
    int64_t size, left_code, right_code, done;
};

/* A row of each column of metrics.partial.Partials, in the orders of metrics.pairwise. */
struct row {
    int64_t *counts;
    double *mantissas;
    int64_t *exponents;
    double *maxima;
    int64_t *positions;
    uint64_t *masks;
    int64_t *histogram;
};
#define COUNTS 14
#define MANTISSAS 12
#define MAXIMA 7
#define MASKS 2

static struct row row_of(char *columns, int64_t rows, int64_t at)
{
    struct row row;

    row.counts = (int64_t *)columns + at * COUNTS;
    columns += rows * COUNTS * 8;
    row.mantissas = (double *)columns + at * MANTISSAS;
    columns += rows * MANTISSAS * 8;
    row.exponents = (int64_t *)columns + at * MANTISSAS;
    columns += rows * MANTISSAS * 8;
    row.maxima = (double *)columns + at * MAXIMA;
    columns += rows * MAXIMA * 8;
    row.positions = (int64_t *)columns + at * MAXIMA;
    columns += rows * MAXIMA * 8;
    row.masks = (uint64_t *)columns + at * MASKS;
    columns += rows * MASKS * 8;
    row.histogram = (int64_t *)columns + at * EXPONENTS;
    return row;
}

/* metrics.partial.bins_of_fields, without what is 0. */
static void write_histogram(struct task *task, int64_t equal, int64_t *histogram)
{
    int64_t *fields = task->fields[0];

    for (int j = 1; j <= task->spread; j++)
        for (int i = 0; i < BINS; i++)
            fields[i] += task->fields[j][i];
    fields[0] -= equal;
    memset(histogram, 0, EXPONENTS * sizeof *histogram);
    for (int i = 0; i < LOWEST; i++)
        histogram[0] += fields[i];
    for (int e = 1; e < EXPONENTS - 1; e++)
        histogram[e] = fields[LOWEST + e - 1];
    for (int i = LOWEST + EXPONENTS - 2; i < BINS; i++)
        histogram[EXPONENTS - 1] += fields[i];
}

static void write_row(const struct row *row, const struct pair *pair, const struct seen *seen,
                      const double *sums, int64_t different_blocks, int64_t start)
{
    const int64_t n = pair->size;
    const int64_t counts[COUNTS] = {n, n, seen->close, different_blocks, n - seen->equal, 0, 0,
                                    seen->right_zero, 0, 0, seen->left_zero, 0, 0, seen->right_zero};
    const double mantissas[MANTISSAS] = {sums[0], sums[1], sums[2], sums[3], sums[0], sums[1],
                                         sums[2], sums[3], sums[7], sums[4], sums[5], sums[6]};
    /* A zero counts as 0.0, whichever of the two was found: that depends on the order. */
    const double maxima[MAXIMA] = {seen->left + 0.0,
                                   -(0.0 - seen->minus_left),
                                   seen->right + 0.0,
                                   -(0.0 - seen->minus_right),
                                   seen->error > 0.0 ? seen->error : -INFINITY,
                                   different_blocks ? seen->relative : -INFINITY,
                                   different_blocks ? seen->tolerance : -INFINITY};

    memcpy(row->counts, counts, sizeof counts);
    memcpy(row->mantissas, mantissas, sizeof mantissas);
    memset(row->exponents, 0, MANTISSAS * sizeof *row->exponents);
    memcpy(row->maxima, maxima, sizeof maxima);
    for (int i = 0; i < MAXIMA; i++)
        row->positions[i] = i == 4 && seen->error > 0.0 ? start + seen->error_index : -1;
}

/* Fills a row; 0 where the pair is left to numpy. */
static int measure(const struct pair *pair, int64_t start, const float *tables, struct task *task,
                   const struct row *row, enum version version)
{
    const enum kind kinds[2] = {KIND(pair->left_code), KIND(pair->right_code)};
    const int64_t length = (int64_t)LEAF * LEAVES_IN_BLOCK;
    const int doubles = !IN_FLOAT32[kinds[0]] || !IN_FLOAT32[kinds[1]];
    widening *const(*const widenings)[2] = WIDENINGS_OF(version);
    struct seen seen = NOTHING;
    struct branches tree = {.count = 0};
    int64_t different_blocks = 0;

    const struct side left = {pair->left, WIDTH[kinds[0]], widenings[kinds[0]][doubles],
                              tables + 256 * (pair->left_code >> 8)};
    const struct side right = {pair->right, WIDTH[kinds[1]], widenings[kinds[1]][doubles],
                               tables + 256 * (pair->right_code >> 8)};
    task->spread = version == PORTABLE_VERSION && pair->size >= LEAF * LEAVES_IN_ROW ? 3 : 0;
    memset(task->fields, 0, (task->spread + 1) * sizeof *task->fields);
    row->masks[0] = row->masks[1] = 0;
    for (int64_t from = 0, i = 1; from < pair->size; from += length, i++) {
        const int64_t size = pair->size - from < length ? pair->size - from : length;
        struct seen here = NOTHING;
        double *sums = tree.sums[tree.count++];
        if (!block_sums(&left, &right, from, size, task, sums, &here, doubles, version) ||
            (doubles && !float64_holds(&here, pair->left_code, pair->right_code)))
            return 0;
        /* The inner product from norms, |x - y|^2 = |x|^2 + |y|^2 - 2 xy, unless that cancels. */
        if (sums[1] > sums[3] * 0x1p-20 && sums[1] < sums[3] * 0x1p20)
            sums[7] = (sums[1] + sums[3] - sums[5]) / 2.0;
        else if (sums[1] == 0.0 || sums[3] == 0.0)
            sums[7] = 0.0;
        else
            sums[7] = block_product(&left, &right, from, size, doubles);
        const int different =
            here.error > 0.0 || pair->left_code != pair->right_code ||
            memcmp(left.data + from * left.width, right.data + from * left.width, size * left.width);
        if (!different || !(here.error > task->atol))
            here.close = size;
        different_blocks += different;
        row->masks[0] |= bits_seen(&left, pair->left_code, from, size);
        row->masks[1] |= bits_seen(&right, pair->right_code, from, size);
        add_seen(&seen, &here);
        for (int64_t k = i; k % 2 == 0; k /= 2)
            join_last_two(&tree);
    }
    while (tree.count > 1)
        join_last_two(&tree);
    if (!pair->size)
        memset(tree.sums[0], 0, sizeof tree.sums[0]);
    if (!doubles) { /* differences of float32 are never subnormal in float64 */
        seen.equal = 0;
        for (int j = 0; j <= task->spread; j++)
            seen.equal += task->fields[j][0];
    }
    write_row(row, pair, &seen, tree.sums[0], different_blocks, start);
    write_histogram(task, seen.equal, row->histogram);
    return 1;
}

static int64_t measure_all(struct pair *pairs, int64_t count, int64_t start, double rtol,
                           double atol, const float *tables, char *columns, enum version most)
{
    const enum version widest = widest_version(), version = most < widest ? most : widest;
    struct task task = {.rtol = rtol, .atol = atol};
    int64_t done = 0;

    for (int64_t i = 0; i < count; i++) {
        struct row row = row_of(columns, count, i);
        if (KIND(pairs[i].left_code) && KIND(pairs[i].right_code))
            pairs[i].done = measure(&pairs[i], start, tables, &task, &row, version);
        done += pairs[i].done;
    }
    return done;
}

/* Measures what it can of `count` pairs, marks it as done and returns how much it was. Left to numpy
 * are pairs with NaN or infinity, and with numbers for which numpy computes otherwise (float64_holds).
 *
 * start: index of the first element, added to positions.
 * tables: 256 values for each row that a code names.
 * columns: of metrics.partial.Partials, one after the other, `count` rows each.
 */
int64_t fused_pairs(struct pair *pairs, int64_t count, int64_t start, double rtol, double atol,
                    const float *tables, char *columns)
{
    return measure_all(pairs, count, start, rtol, atol, tables, columns, AVX512_VERSION);
}

/* The same on a processor that has less: for the tests. */
int64_t avx2_pairs(struct pair *pairs, int64_t count, int64_t start, double rtol, double atol,
                   const float *tables, char *columns)
{
    return measure_all(pairs, count, start, rtol, atol, tables, columns, AVX2_VERSION);
}

int64_t portable_pairs(struct pair *pairs, int64_t count, int64_t start, double rtol, double atol,
                       const float *tables, char *columns)
{
    return measure_all(pairs, count, start, rtol, atol, tables, columns, PORTABLE_VERSION);
}

/* For locate_loop.c and sketch_loop.c, which want more than a leaf at a time; see loops.h. */
const void *fetch_run(const char *data, int64_t code, int64_t from, int64_t count,
                      const float *tables, int doubles, enum version version, void *memory)
{
    const enum kind kind = KIND(code);
    const struct side side = {data, WIDTH[kind], WIDENINGS_OF(version)[kind][doubles],
                              tables + 256 * (code >> 8)};

    return fetch(&side, from, count, memory);
}
