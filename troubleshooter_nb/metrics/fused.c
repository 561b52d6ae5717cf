/* One pass over a run of float32 pairs; see compiled.py. C99 with the vector types of GCC and Clang,
 * and the intrinsics of AVX-512 where the processor has it; no Python headers.
 *
 * Every sum is formed in the order of metrics.partial: whole rows in leaves of 128 elements with 8
 * accumulators, what is left over as numpy divides it, rows and blocks along a binary tree. Compile with
 * -ffp-contract=off and without -ffast-math, or the bits change.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LEAF 128
#define LANES 8
#define HALF 4
#define SUMS 7
#define BINS 2048
#define LEAVES_IN_ROW 64 /* a row is what pairwise_sum leaves to numpy */
#define LEAVES_IN_BLOCK 1024

/* The baseline, an AVX2 and an AVX-512 version in one library, chosen when it is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#define HAS_AVX512 1
#include <immintrin.h>
#define WITH_AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,popcnt")))
#endif
#if defined(HAS_AVX512) && !defined(__clang__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif
#define INLINE static inline __attribute__((always_inline))

typedef double reals __attribute__((vector_size(8 * HALF)));
typedef int64_t bits __attribute__((vector_size(8 * HALF)));
typedef float floats __attribute__((vector_size(4 * HALF)));

/* Largest values and counts over all elements so far. */
struct seen {
    double left, minus_left, right, minus_right, error, relative, tolerance;
    int64_t left_zero, right_zero, close, error_index;
};

INLINE reals larger(reals a, reals b)
{
    bits mask = (bits)(a > b);
    return (reals)(((bits)a & mask) | ((bits)b & ~mask));
}

INLINE reals magnitude(reals a)
{
    return (reals)((bits)a & INT64_MAX);
}

INLINE double largest(reals a)
{
    double top = a[0];
    for (int j = 1; j < HALF; j++)
        top = a[j] > top ? a[j] : top;
    return top;
}

INLINE void count_error(int64_t *bins, double error)
{
    int64_t field;
    memcpy(&field, &error, sizeof field);
    bins[field >> 52]++;
}

/* The sums of one pair of elements, and all else about it. */
static void element(double a, double b, int64_t at, double rtol, double atol, double *sums,
                    struct seen *seen, int64_t *bins)
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
    seen->close += error <= reference * rtol + atol;
    if (error > seen->error) {
        seen->error = error;
        seen->error_index = at;
    }
    count_error(bins, error);
}

/* Sums of a range of any length, divided as numpy's reduction divides it. */
static void any_length(const float *left, const float *right, int64_t from, int64_t size,
                       double rtol, double atol, double *sums, struct seen *seen, int64_t *bins)
{
    double lane[LANES][SUMS], more[SUMS];
    int64_t i = 0;

    if (size > LEAF) {
        int64_t first = size / 2 - size / 2 % LANES;
        any_length(left, right, from, first, rtol, atol, sums, seen, bins);
        any_length(left, right, from + first, size - first, rtol, atol, more, seen, bins);
        for (int s = 0; s < SUMS; s++)
            sums[s] += more[s];
        return;
    }
    memset(sums, 0, SUMS * sizeof *sums);
    if (size >= LANES) {
        for (; i < LANES; i++)
            element(left[from + i], right[from + i], from + i, rtol, atol, lane[i], seen, bins);
        for (; i < size - size % LANES; i++) {
            element(left[from + i], right[from + i], from + i, rtol, atol, more, seen, bins);
            for (int s = 0; s < SUMS; s++)
                lane[i % LANES][s] += more[s];
        }
        for (int s = 0; s < SUMS; s++)
            sums[s] = ((lane[0][s] + lane[1][s]) + (lane[2][s] + lane[3][s])) +
                      ((lane[4][s] + lane[5][s]) + (lane[6][s] + lane[7][s]));
    }
    for (; i < size; i++) {
        element(left[from + i], right[from + i], from + i, rtol, atol, more, seen, bins);
        for (int s = 0; s < SUMS; s++)
            sums[s] += more[s];
    }
}

/* Whole leaves; 0 at the first NaN or infinity. See fused_float32. */
VECTORISED static int leaves_portable(const float *restrict left, const float *restrict right,
                                      int64_t leaves, double rtol, double atol,
                                      double *restrict table, struct seen *restrict result,
                                      int64_t *restrict fields)
{
    const reals none = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, one = {1.0, 1.0, 1.0, 1.0};
    reals top_a = none, top_minus_a = none, top_b = none, top_minus_b = none;
    reals top_relative = none, top_tolerance = none;
    bits zero_a = {0}, zero_b = {0}, close = {0};
    /* Four histograms: neighbours often fall into one bin, and its counter would be waited for. */
    int64_t bins[4][BINS];
    struct seen seen;
    double error[LEAF], worst_error = -1.0;
    int64_t worst = 0;

    memset(bins, 0, sizeof bins);
    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        double halves[2][SUMS], leaf_error = -1.0;
        /* Half of the accumulators at a time: all of them do not fit the registers. */
        for (int half = 0; half < 2; half++) {
            const float *x = left + leaf * LEAF + half * HALF, *y = right + leaf * LEAF + half * HALF;
            reals sum[SUMS] = {{0}}, top_error = {0};
            for (int k = 0; k < LEAF; k += LANES) {
                floats fx, fy;
                memcpy(&fx, x + k, sizeof fx);
                memcpy(&fy, y + k, sizeof fy);
                reals a = __builtin_convertvector(fx, reals), b = __builtin_convertvector(fy, reals);
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
        /* NaN compares false; finite float32 squares stay far below this. */
        if (!(table[leaves + leaf] < 1e300 && table[3 * leaves + leaf] < 1e300))
            return 0;
        if (leaf_error > worst_error) {
            worst_error = leaf_error;
            for (int i = 0; i < LEAF; i++)
                if (error[i] == worst_error) {
                    worst = leaf * LEAF + i;
                    break;
                }
        }
        for (int i = 0; i < LEAF; i += 4)
            for (int j = 0; j < 4; j++)
                count_error(bins[j], error[i + j]);
    }
    seen = (struct seen){largest(top_a), largest(top_minus_a), largest(top_b),
                         largest(top_minus_b), worst_error, largest(top_relative),
                         largest(top_tolerance), 0, 0, 0, worst};
    for (int j = 0; j < HALF; j++) { /* what is true is -1 in a vector */
        seen.left_zero -= zero_a[j];
        seen.right_zero -= zero_b[j];
        seen.close -= close[j];
    }
    for (int i = 0; i < BINS; i++)
        fields[i] += bins[0][i] + bins[1][i] + bins[2][i] + bins[3][i];
    *result = seen;
    return 1;
}

#ifdef HAS_AVX512
#define VECTOR 16 /* float32 */
#define MOST_ROWS 32 /* comparing with so many exponents still beats going element by element */

/* The sum of 8 lanes, neighbours first. */
WITH_AVX512 static inline double sum_of_lanes(__m512d lanes)
{
    __m256d pairs = _mm256_hadd_pd(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd(lanes, 1));
    __m128d halves = _mm_add_pd(_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd(pairs, 1));
    return _mm_cvtsd_f64(halves) + _mm_cvtsd_f64(_mm_unpackhi_pd(halves, halves));
}

/* Count the errors of a leaf by exponent: each exponent that may occur is compared with all of them
 * at once, as the errors of one leaf seldom differ in many. */
WITH_AVX512 static inline void count_leaf(const uint16_t *exponent, double top, int64_t *fields)
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
    if (last - first >= MOST_ROWS) {
        for (int i = 0; i < LEAF; i++)
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

/* Whole leaves; 0 at the first NaN or infinity. See fused_float32. */
WITH_AVX512 static int leaves_avx512(const float *restrict left, const float *restrict right,
                                     int64_t leaves, double rtol, double atol,
                                     double *restrict table, struct seen *restrict result,
                                     int64_t *restrict fields)
{
    const __m512d one = _mm512_set1_pd(1.0), zero = _mm512_setzero_pd();
    const __m512d rtols = _mm512_set1_pd(rtol), atols = _mm512_set1_pd(atol);
    const __m512i ones = _mm512_set1_epi64(1);
    const __m512 zeros = _mm512_setzero_ps();
    __m512 left_max = _mm512_set1_ps(-INFINITY), left_min = _mm512_set1_ps(INFINITY);
    __m512 right_max = left_max, right_min = left_min;
    __m512d top_relative = _mm512_set1_pd(-INFINITY);
    __m512i close = _mm512_setzero_si512();
    int64_t left_zero = 0, right_zero = 0, worst = 0;
    double worst_error = -1.0, top_tolerance = -INFINITY;
    uint16_t exponent[LEAF];

    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        const float *x = left + leaf * LEAF, *y = right + leaf * LEAF;
        /* A tolerance is divided only where it may be the largest: there is room for rounding. */
        const __m512d low = _mm512_set1_pd(top_tolerance * (1.0 - 0x1p-40));
        __m512d sum[SUMS], top = zero;
        __mmask8 over = 0;

        for (int s = 0; s < SUMS; s++)
            sum[s] = zero;
        for (int k = 0; k < LEAF; k += VECTOR) {
            __m512 a = _mm512_loadu_ps(x + k), b = _mm512_loadu_ps(y + k);
            left_max = _mm512_max_ps(left_max, a);
            left_min = _mm512_min_ps(left_min, a);
            right_max = _mm512_max_ps(right_max, b);
            right_min = _mm512_min_ps(right_min, b);
            left_zero += __builtin_popcount(_mm512_cmp_ps_mask(a, zeros, _CMP_EQ_OQ));
            right_zero += __builtin_popcount(_mm512_cmp_ps_mask(b, zeros, _CMP_EQ_OQ));
        }
        for (int k = 0; k < LEAF; k += LANES) {
            __m512d a = _mm512_cvtps_pd(_mm256_loadu_ps(x + k));
            __m512d b = _mm512_cvtps_pd(_mm256_loadu_ps(y + k));
            __m512d reference = _mm512_abs_pd(b), error = _mm512_abs_pd(_mm512_sub_pd(a, b));
            __mmask8 not_zero = _mm512_cmp_pd_mask(reference, zero, _CMP_NEQ_UQ);
            __m512d relative = _mm512_maskz_div_pd(not_zero, error, reference);
            __m512d limit = _mm512_add_pd(_mm512_mul_pd(reference, rtols), atols);
            __m512d bound = _mm512_mul_pd(_mm512_add_pd(reference, one), low);
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
            close = _mm512_mask_add_epi64(close, is_close, close, ones);
            top = _mm512_max_pd(error, top);
            top_relative = _mm512_max_pd(relative, top_relative);
            _mm_storeu_si128((__m128i *)(exponent + k), _mm512_cvtepi64_epi16(field));
        }
        for (int s = 0; s < SUMS; s++)
            table[s * leaves + leaf] = sum_of_lanes(sum[s]);
        /* NaN compares false; finite float32 squares stay far below this. */
        if (!(table[leaves + leaf] < 1e300 && table[3 * leaves + leaf] < 1e300))
            return 0;
        if (over)
            for (int i = 0; i < LEAF; i++) {
                double a = x[i], b = y[i], tolerance = fabs(a - b) / (fabs(b) + 1.0);
                top_tolerance = tolerance > top_tolerance ? tolerance : top_tolerance;
            }
        double leaf_error = _mm512_reduce_max_pd(top);
        if (leaf_error > worst_error) {
            worst_error = leaf_error;
            for (worst = leaf * LEAF; fabs((double)left[worst] - right[worst]) != worst_error;)
                worst++;
        }
        count_leaf(exponent, leaf_error, fields);
    }
    *result = (struct seen){
        _mm512_reduce_max_ps(left_max), -_mm512_reduce_min_ps(left_min),
        _mm512_reduce_max_ps(right_max), -_mm512_reduce_min_ps(right_min),
        worst_error, _mm512_reduce_max_pd(top_relative), top_tolerance,
        left_zero, right_zero, _mm512_reduce_add_epi64(close), worst};
    return 1;
}
#endif

/* metrics.partial.tree_sum: neighbours first, an odd one at the end waits for the next round. */
static double tree_sum(double *values, int64_t count)
{
    for (; count > 1; count = count / 2 + count % 2) {
        for (int64_t i = 0; i < count / 2; i++)
            values[i] = values[2 * i] + values[2 * i + 1];
        if (count % 2)
            values[count / 2] = values[count - 1];
    }
    return values[0];
}

/* What of two runs, the second of which begins `offset` elements further on. */
static void add_seen(struct seen *all, const struct seen *more, int64_t offset)
{
    double *a = &all->left;
    const double *b = &more->left;

    if (more->error > all->error)
        all->error_index = offset + more->error_index;
    for (int i = 0; i < 7; i++)
        a[i] = b[i] > a[i] ? b[i] : a[i];
    all->left_zero += more->left_zero;
    all->right_zero += more->right_zero;
    all->close += more->close;
}

/* The sums of one block, which may be shorter than others; 0 at the first NaN or infinity. */
static int block(const float *restrict left, const float *restrict right, int64_t size, double rtol,
                 double atol, double *restrict sums, struct seen *restrict seen,
                 int64_t *restrict fields, int portable)
{
    double table[SUMS * LEAVES_IN_BLOCK], rest[SUMS];
    int64_t rows = size / (LEAF * LEAVES_IN_ROW), leaves = rows * LEAVES_IN_ROW;
    int finite;

    *seen = (struct seen){-INFINITY, -INFINITY, -INFINITY, -INFINITY, -1.0, -INFINITY, -INFINITY,
                          0, 0, 0, 0};
#ifdef HAS_AVX512
    if (!portable)
        finite = leaves_avx512(left, right, leaves, rtol, atol, table, seen, fields);
    else
#endif
        finite = leaves_portable(left, right, leaves, rtol, atol, table, seen, fields);
    if (!finite)
        return 0;
    for (int s = 0; s < SUMS && rows; s++) {
        double row_sums[LEAVES_IN_BLOCK / LEAVES_IN_ROW];
        for (int64_t row = 0; row < rows; row++)
            row_sums[row] = tree_sum(table + s * leaves + row * LEAVES_IN_ROW, LEAVES_IN_ROW);
        sums[s] = tree_sum(row_sums, rows);
    }
    if (size == leaves * LEAF)
        return 1;
    any_length(left, right, leaves * LEAF, size - leaves * LEAF, rtol, atol, rest, seen, fields);
    for (int s = 0; s < SUMS; s++)
        sums[s] = rows ? sums[s] + rest[s] : rest[s];
    return rest[1] < 1e300 && rest[3] < 1e300;
}

static int measure(const float *restrict left, const float *restrict right, int64_t size,
                   double rtol, double atol, double *restrict scratch, double *restrict sums,
                   double *restrict maxima, int64_t *restrict counts, int64_t *restrict fields,
                   int portable)
{
    const int64_t length = (int64_t)LEAF * LEAVES_IN_BLOCK, blocks = (size + length - 1) / length;
    struct seen seen, more;

#ifdef HAS_AVX512
    portable |= !(__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl"));
#endif
    memset(fields, 0, BINS * sizeof *fields);
    for (int64_t i = 0; i < blocks; i++) {
        double of[SUMS];
        int64_t start = i * length, here = size - start < length ? size - start : length;
        if (!block(left + start, right + start, here, rtol, atol, of, &more, fields, portable))
            return 0;
        /* The inner product from norms, |x - y|^2 = |x|^2 + |y|^2 - 2 xy, unless that cancels. */
        if (!(of[1] > of[3] * 0x1p-20 && of[1] < of[3] * 0x1p20))
            return 0;
        for (int s = 0; s < SUMS; s++)
            scratch[s * blocks + i] = of[s];
        scratch[SUMS * blocks + i] = (of[1] + of[3] - of[5]) / 2.0;
        if (i)
            add_seen(&seen, &more, start);
        else
            seen = more;
    }
    for (int s = 0; s <= SUMS; s++)
        sums[s] = tree_sum(scratch + s * blocks, blocks);
    memcpy(maxima, &seen.left, 7 * sizeof *maxima);
    memcpy(counts, &seen.left_zero, 4 * sizeof *counts);
    return 1;
}

/* Returns 0 where the run is left to numpy: at the first NaN or infinity, or where the norms of the
 * two sides are so unlike that the inner product cannot be had from them.
 *
 * scratch: 8 x blocks.
 * sums: left, left^2, right, right^2, error, error^2, relative, left x right.
 * maxima: left, -left, right, -right, error, relative, tolerance.
 * counts: zeros of left and right, close elements, index of the largest error.
 * fields: 2048 counts of errors by the exponent field of float64.
 */
int fused_float32(const float *restrict left, const float *restrict right, int64_t size,
                  double rtol, double atol, double *restrict scratch, double *restrict sums,
                  double *restrict maxima, int64_t *restrict counts, int64_t *restrict fields)
{
    return measure(left, right, size, rtol, atol, scratch, sums, maxima, counts, fields, 0);
}

/* The same without AVX-512, whatever the processor has: for the tests. */
int portable_float32(const float *restrict left, const float *restrict right, int64_t size,
                     double rtol, double atol, double *restrict scratch, double *restrict sums,
                     double *restrict maxima, int64_t *restrict counts, int64_t *restrict fields)
{
    return measure(left, right, size, rtol, atol, scratch, sums, maxima, counts, fields, 1);
}
