/* Statistics and signed sums of one run of numbers; see sketches.py. C99 with the vector types of GCC and
 * Clang, and the intrinsics of AVX-512 where the processor has it; no Python headers.
 *
 * A group of rows that fits the first cache is widened, scanned and folded before the next one. A sign
 * times a value is exact, so that a fused multiply-add gives the bits of a product and a sum.
 */
#include "loops.h"

#define COLUMNS 512 /* of the row of a fingerprint; a format, as all of these but GROUP */
#define PATTERNS 8  /* of row signs */
#define SIGNED_SUMS 16
#define GROUP 16    /* rows that share one visit of the folded sums */
#define VALUES (GROUP * COLUMNS)

/* sketches.py has the same list. */
struct measured {
    double smallest, largest, total, squares, nan, inf; /* of the finite values */
    double signed_sums[SIGNED_SUMS];
};

/* What a group is widened into, or copied without what is not finite. */
union group {
    float floats[VALUES];
    double doubles[VALUES];
};

struct scan {
    double smallest, largest, total, squares;
};

/* The signs of a row of a tensor: bit k of the splitmix64 of its number. */
static void signs_of_row(int64_t row, double *signs)
{
    uint64_t z = (uint64_t)(row + 1) * 0x9E3779B97F4A7C15u + 2;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    signs[0] = 1.0;
    for (int k = 1; k < PATTERNS; k++)
        signs[k] = (z >> k) & 1 ? -1.0 : 1.0;
}

static void scan_rest(const void *values, int64_t from, int64_t count, int doubles, struct scan *all)
{
    for (int64_t i = from; i < count; i++) {
        double v = value(values, i, doubles);
        all->smallest = v < all->smallest ? v : all->smallest;
        all->largest = v > all->largest ? v : all->largest;
        all->total += v;
        all->squares += v * v;
    }
}

INLINE reals smaller(reals a, reals b)
{
    bits mask = (bits)(a < b);
    return (reals)(((bits)a & mask) | ((bits)b & ~mask));
}

/* The sums are NaN or infinite, and the extremes anything, where not all is finite. */
INLINE struct scan scan_lanes(const void *values, int64_t count, const int doubles)
{
    const reals none = {INFINITY, INFINITY, INFINITY, INFINITY};
    reals low = none, high = -none, total[4] = {{0}}, squares[4] = {{0}}, v[4];
    struct scan all = {INFINITY, -INFINITY, 0.0, 0.0};
    int64_t i = 0;

    for (; i + 4 * HALF <= count; i += 4 * HALF) {
        for (int j = 0; j < 4; j++) {
            v[j] = four(values, i + j * HALF, doubles);
            total[j] += v[j];
            squares[j] += v[j] * v[j];
        }
        low = smaller(smaller(smaller(v[0], v[1]), smaller(v[2], v[3])), low);
        high = larger(larger(larger(v[0], v[1]), larger(v[2], v[3])), high);
    }
    for (int j = 0; j < HALF; j++) {
        all.smallest = low[j] < all.smallest ? low[j] : all.smallest;
        all.largest = high[j] > all.largest ? high[j] : all.largest;
        all.total += (total[0][j] + total[1][j]) + (total[2][j] + total[3][j]);
        all.squares += (squares[0][j] + squares[1][j]) + (squares[2][j] + squares[3][j]);
    }
    scan_rest(values, i, count, doubles, &all);
    return all;
}

/* Adds rows to the sums of each column, once for each pattern of row signs. */
INLINE void fold_lanes(const void *values, int64_t rows, double (*signs)[PATTERNS],
                       double (*restrict folded)[COLUMNS], const int doubles)
{
    for (int64_t column = 0; column < COLUMNS; column += HALF) {
        reals sums[PATTERNS];
        for (int k = 0; k < PATTERNS; k++)
            memcpy(sums + k, folded[k] + column, sizeof sums[k]);
        for (int64_t row = 0; row < rows; row++) {
            reals v = four(values, row * COLUMNS + column, doubles);
            for (int k = 0; k < PATTERNS; k++)
                sums[k] += v * signs[row][k];
        }
        for (int k = 0; k < PATTERNS; k++)
            memcpy(folded[k] + column, sums + k, sizeof sums[k]);
    }
}

VECTORISED static struct scan scan_portable(const void *values, int64_t count, int doubles)
{
    return doubles ? scan_lanes(values, count, 1) : scan_lanes(values, count, 0);
}

VECTORISED static void fold_portable(const void *values, int64_t rows, double (*signs)[PATTERNS],
                                     double (*restrict folded)[COLUMNS], int doubles)
{
    if (doubles)
        fold_lanes(values, rows, signs, folded, 1);
    else
        fold_lanes(values, rows, signs, folded, 0);
}

#ifdef HAS_AVX512
#define WITH_FMA __attribute__((target("avx2,fma")))

/* As fold_lanes; the compiler may not fuse what it says. */
WITH_FMA static void fold_fma(const void *values, int64_t rows, double (*signs)[PATTERNS],
                              double (*restrict folded)[COLUMNS], int doubles)
{
    for (int64_t column = 0; column < COLUMNS; column += HALF) {
        __m256d sums[PATTERNS];
        for (int k = 0; k < PATTERNS; k++)
            sums[k] = _mm256_loadu_pd(folded[k] + column);
        for (int64_t row = 0; row < rows; row++) {
            const int64_t at = row * COLUMNS + column;
            __m256d v = doubles ? _mm256_loadu_pd((const double *)values + at)
                                : _mm256_cvtps_pd(_mm_loadu_ps((const float *)values + at));
            for (int k = 0; k < PATTERNS; k++)
                sums[k] = _mm256_fmadd_pd(_mm256_set1_pd(signs[row][k]), v, sums[k]);
        }
        for (int k = 0; k < PATTERNS; k++)
            _mm256_storeu_pd(folded[k] + column, sums[k]);
    }
}

WITH_AVX512 INLINE __m512d eight(const void *values, int64_t at, const int doubles)
{
    return doubles ? _mm512_loadu_pd((const double *)values + at)
                   : _mm512_cvtps_pd(_mm256_loadu_ps((const float *)values + at));
}

WITH_AVX512 INLINE struct scan scan_wide(const void *values, int64_t count, const int doubles)
{
    const __m512d none = _mm512_set1_pd(INFINITY);
    __m512d low = none, high = _mm512_sub_pd(_mm512_setzero_pd(), none);
    __m512d total[4] = {{0}}, squares[4] = {{0}};
    struct scan all;
    int64_t i = 0;

    for (; i + 32 <= count; i += 32) {
        __m512d v[4];
        for (int j = 0; j < 4; j++) {
            v[j] = eight(values, i + 8 * j, doubles);
            total[j] = _mm512_add_pd(total[j], v[j]);
            squares[j] = _mm512_fmadd_pd(v[j], v[j], squares[j]);
        }
        low = _mm512_min_pd(low, _mm512_min_pd(_mm512_min_pd(v[0], v[1]), _mm512_min_pd(v[2], v[3])));
        high = _mm512_max_pd(high, _mm512_max_pd(_mm512_max_pd(v[0], v[1]), _mm512_max_pd(v[2], v[3])));
    }
    for (int j = 1; j < 4; j++) {
        total[0] = _mm512_add_pd(total[0], total[j]);
        squares[0] = _mm512_add_pd(squares[0], squares[j]);
    }
    all.smallest = _mm512_reduce_min_pd(low);
    all.largest = _mm512_reduce_max_pd(high);
    all.total = sum_of_lanes(total[0]);
    all.squares = sum_of_lanes(squares[0]);
    scan_rest(values, i, count, doubles, &all);
    return all;
}

WITH_AVX512 INLINE void fold_wide(const void *values, int64_t rows, double (*signs)[PATTERNS],
                                  double (*restrict folded)[COLUMNS], const int doubles)
{
    for (int64_t column = 0; column < COLUMNS; column += 16) {
        __m512d sums[PATTERNS][2];
        for (int k = 0; k < PATTERNS; k++)
            for (int j = 0; j < 2; j++)
                sums[k][j] = _mm512_loadu_pd(folded[k] + column + 8 * j);
        for (int64_t row = 0; row < rows; row++) {
            __m512d left = eight(values, row * COLUMNS + column, doubles);
            __m512d right = eight(values, row * COLUMNS + column + 8, doubles);
            for (int k = 0; k < PATTERNS; k++) {
                __m512d sign = _mm512_set1_pd(signs[row][k]);
                sums[k][0] = _mm512_fmadd_pd(sign, left, sums[k][0]);
                sums[k][1] = _mm512_fmadd_pd(sign, right, sums[k][1]);
            }
        }
        for (int k = 0; k < PATTERNS; k++)
            for (int j = 0; j < 2; j++)
                _mm512_storeu_pd(folded[k] + column + 8 * j, sums[k][j]);
    }
}

WITH_AVX512 static struct scan scan_avx512(const void *values, int64_t count, int doubles)
{
    return doubles ? scan_wide(values, count, 1) : scan_wide(values, count, 0);
}

WITH_AVX512 static void fold_avx512(const void *values, int64_t rows, double (*signs)[PATTERNS],
                                    double (*restrict folded)[COLUMNS], int doubles)
{
    if (doubles)
        fold_wide(values, rows, signs, folded, 1);
    else
        fold_wide(values, rows, signs, folded, 0);
}
#endif

INLINE struct scan scan_group(const void *values, int64_t count, int doubles, enum version version)
{
#ifdef HAS_AVX512
    if (version == AVX512_VERSION)
        return scan_avx512(values, count, doubles);
#endif
    (void)version;
    return scan_portable(values, count, doubles);
}

INLINE void fold_group(const void *values, int64_t rows, double (*signs)[PATTERNS],
                       double (*restrict folded)[COLUMNS], int doubles,
                       enum version version)
{
#ifdef HAS_AVX512
    if (version == AVX512_VERSION) {
        fold_avx512(values, rows, signs, folded, doubles);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        fold_fma(values, rows, signs, folded, doubles);
        return;
    }
#endif
    (void)version;
    fold_portable(values, rows, signs, folded, doubles);
}

INLINE reals where(bits truths, reals yes, reals no)
{
    return (reals)(((bits)yes & truths) | ((bits)no & ~truths));
}

/* The values with 0 for NaN and infinities, which are counted; may be in the same place. */
INLINE void clean_lanes(const void *values, int64_t count, void *clean, struct measured *all,
                        struct scan *scan, const int doubles)
{
    const reals none = {INFINITY, INFINITY, INFINITY, INFINITY}, zero = {0.0, 0.0, 0.0, 0.0};
    double smallest = INFINITY, largest = -INFINITY;
    reals low = none, high = -none;
    bits nan = {0}, bad = {0};
    int64_t i = 0;

    for (; i + HALF <= count; i += HALF) {
        const reals v = four(values, i, doubles);
        const bits finite = (bits)(v - v == zero);
        const reals wide = where(finite, v, zero);
        nan += (bits)(v != v);
        bad += ~finite;
        low = smaller(where(finite, v, none), low);
        high = larger(where(finite, v, -none), high);
        if (doubles)
            memcpy((double *)clean + i, &wide, sizeof wide);
        else {
            const floats narrow = __builtin_convertvector(wide, floats);
            memcpy((float *)clean + i, &narrow, sizeof narrow);
        }
    }
    for (; i < count; i++) {
        const double v = value(values, i, doubles);
        nan[0] -= isnan(v) != 0;
        bad[0] -= !isfinite(v);
        smallest = isfinite(v) && v < smallest ? v : smallest;
        largest = isfinite(v) && v > largest ? v : largest;
        if (doubles)
            ((double *)clean)[i] = isfinite(v) ? v : 0.0;
        else
            ((float *)clean)[i] = isfinite(v) ? (float)v : 0.0f;
    }
    for (int j = 0; j < HALF; j++) {
        smallest = low[j] < smallest ? low[j] : smallest;
        largest = high[j] > largest ? high[j] : largest;
        all->nan -= (double)nan[j];
        all->inf += (double)(nan[j] - bad[j]);
    }
    scan->smallest = smallest, scan->largest = largest;
}

VECTORISED static void clean_group(const void *values, int64_t count, void *clean,
                                   struct measured *all, struct scan *scan, int doubles)
{
    if (doubles)
        clean_lanes(values, count, clean, all, scan, 1);
    else
        clean_lanes(values, count, clean, all, scan, 0);
}

/* Scans a group; what is folded after it, which is `memory` where not all was finite. */
static const void *measure_group(const void *values, int64_t count, int doubles, enum version version,
                                 union group *memory, struct measured *all)
{
    struct scan scan = scan_group(values, count, doubles, version);

    if (!isfinite(scan.squares)) {
        struct scan sums;
        clean_group(values, count, memory, all, &scan, doubles);
        values = memory;
        sums = scan_group(values, count, doubles, version);
        scan.total = sums.total, scan.squares = sums.squares;
    }
    all->smallest = scan.smallest < all->smallest ? scan.smallest : all->smallest;
    all->largest = scan.largest > all->largest ? scan.largest : all->largest;
    all->total += scan.total;
    all->squares += scan.squares;
    return values;
}

/* The sum of each pattern of row signs with its two patterns of column signs. */
VECTORISED static void add_columns(double (*folded)[COLUMNS], const double *column_signs, double *sums)
{
    for (int k = 0; k < SIGNED_SUMS; k++) {
        const double *of = folded[k / 2], *signs = column_signs + k * COLUMNS;
        double lanes[2 * LANES] = {0};
        for (int column = 0; column < COLUMNS; column += 2 * LANES)
            for (int j = 0; j < 2 * LANES; j++)
                lanes[j] += of[column + j] * signs[column + j];
        sums[k] = tree_sum(lanes, 2 * LANES);
    }
}

/* Fills `all` with what is known of `count` values, of which the first begins a row; `column_signs`,
 * SIGNED_SUMS x COLUMNS, is NULL where no signed sums are wanted. `doubles`: float32 does not hold all
 * values of this code. */
void measure_values(const char *data, int64_t code, int64_t count, int64_t first_row,
                    const float *tables, int doubles, int portable, const double *column_signs,
                    struct measured *all)
{
    const struct measured none = {INFINITY, -INFINITY, 0.0, 0.0, 0.0, 0.0, {0.0}};
    const size_t width = doubles ? sizeof(double) : sizeof(float);
    double folded[PATTERNS][COLUMNS], signs[GROUP][PATTERNS];
    const enum version version = portable ? PORTABLE_VERSION : widest_version();
    union group memory;

    *all = none;
    if (column_signs)
        memset(folded, 0, sizeof folded);
    for (int64_t from = 0; from < count; from += VALUES) {
        const int64_t here = count - from < VALUES ? count - from : VALUES, rows = here / COLUMNS;
        const void *values = fetch_run(data, code, from, here, tables, doubles, version, &memory);
        values = measure_group(values, here, doubles, version, &memory, all);
        if (!column_signs)
            continue;
        for (int64_t row = 0; row * COLUMNS < here; row++)
            signs_of_row(first_row + from / COLUMNS + row, signs[row]);
        fold_group(values, rows, signs, folded, doubles, version);
        if (rows * COLUMNS < here) {
            const size_t whole = (size_t)(rows * COLUMNS) * width, rest = (size_t)here * width - whole;
            memmove(&memory, (const char *)values + whole, rest);
            memset((char *)&memory + rest, 0, COLUMNS * width - rest);
            fold_group(&memory, 1, signs + rows, folded, doubles, version);
        }
    }
    if (column_signs)
        add_columns(folded, column_signs, all->signed_sums);
}
