/* One block of the drill-down; see locate_loop.py. C99 with the vector types of GCC and Clang, and the
 * intrinsics of AVX-512 where the processor has it; no Python headers.
 *
 * Sums are formed in the order of metrics.locate: a row in leaves of 128 columns with 8 accumulators,
 * leaves along a binary tree; a column row after row. Compile with -ffp-contract=off and without
 * -ffast-math, or the bits change.
 */
#include "loops.h"
#include <float.h>

#define GROUP 4 /* rows that share one visit of their columns' sums */
#define WORST 8
#define EDGES 9
#define BINS (EDGES + 1)
#define PIECE 2048

/* Sums along an axis in `bins` equal parts of `length` indices, which lie `inner` apart. */
struct axis {
    double *profile;
    int64_t bins, length, inner;
};

/* What is known of two tensors so far, in the memory of the caller; locate_loop.py has the same list. */
struct place {
    int64_t rows, columns;           /* of the two-dimensional view */
    int64_t tile_rows, tile_columns;
    double *tile_max;                /* tile_rows x tile_columns */
    int64_t *tile_mismatch;          /* likewise */
    int64_t *histograms;             /* 2 x BINS */
    const double *edges;             /* smallest value of each bin but the first */
    const float *float_edges;        /* likewise, among float32 */
    double *worst_error;             /* WORST, largest first; ties go to the lower index */
    double *worst_left, *worst_right;
    int64_t *worst_index;
    int64_t worst_count;
    double scale[2];                 /* errors are multiplied by both before they are squared */
    struct axis *row_axes, *column_axes;
    int64_t count_of_row_axes, count_of_column_axes;
    const float *byte_values;        /* see compiled.py */
    /* Of one block, to be overwritten: */
    double *row_sums;                /* a number a row */
    double *column_sums;             /* a number a column */
    double *leaf_sums;               /* a number a row and leaf */
    double *widened, *cleaned;       /* both sides */
};

INLINE reals smaller(reals a, reals b)
{
    bits mask = (bits)(a < b);
    return (reals)(((bits)a & mask) | ((bits)b & ~mask));
}

/* First index of a tile's successor along an axis. */
INLINE int64_t end_of_tile(int64_t tile, int64_t length, int64_t tiles)
{
    return ((tile + 1) * length + tiles - 1) / tiles;
}

/* --- worst elements ----------------------------------------------------------------------------- */

static void insert_worst(struct place *p, double error, int64_t index, double left, double right)
{
    int64_t at = p->worst_count;

    if (at == WORST && (error < p->worst_error[at - 1] ||
                        (error == p->worst_error[at - 1] && index > p->worst_index[at - 1])))
        return;
    if (at < WORST)
        p->worst_count++;
    else
        at--;
    for (; at && (error > p->worst_error[at - 1] ||
                  (error == p->worst_error[at - 1] && index < p->worst_index[at - 1]));
         at--) {
        p->worst_error[at] = p->worst_error[at - 1];
        p->worst_index[at] = p->worst_index[at - 1];
        p->worst_left[at] = p->worst_left[at - 1];
        p->worst_right[at] = p->worst_right[at - 1];
    }
    p->worst_error[at] = error;
    p->worst_index[at] = index;
    p->worst_left[at] = left;
    p->worst_right[at] = right;
}

/* Whether an error so large, not before this index, may be among the worst. */
INLINE int may_be_worst(const struct place *p, double error, int64_t index)
{
    if (p->worst_count < WORST)
        return error > 0.0;
    return error > p->worst_error[WORST - 1] ||
           (error == p->worst_error[WORST - 1] && index < p->worst_index[WORST - 1]);
}

/* --- histograms --------------------------------------------------------------------------------- */

/* Values at or above each edge, finite ones and positive infinities of a side are counted, all three in
 * whole numbers: any order gives the same. Returns whether all are finite. */
#define HISTOGRAM(name, real, whole, magnitude, infinity)                                          \
    VECTORISED static int name(const real *restrict values, int64_t size,                          \
                               const real *restrict edges, int64_t *restrict histogram)            \
    {                                                                                              \
        int64_t above[BINS + 1] = {0}, finite = 0, infinite = 0;                                   \
        for (int64_t from = 0; from < size; from += PIECE) {                                       \
            const real *v = values + from;                                                         \
            const int count = size - from < PIECE ? (int)(size - from) : PIECE;                    \
            whole here = 0;                                                                        \
            for (int i = 0; i < count; i++) {                                                      \
                whole stored;                                                                      \
                memcpy(&stored, v + i, sizeof stored);                                             \
                here += (stored & magnitude) < infinity;                                           \
            }                                                                                      \
            finite += here;                                                                        \
            for (int k = 0; k < EDGES; k++) {                                                      \
                const real edge = edges[k];                                                        \
                whole reached = 0;                                                                 \
                for (int i = 0; i < count; i++)                                                    \
                    reached += v[i] >= edge;                                                       \
                above[k + 1] += reached;                                                           \
            }                                                                                      \
            if (here < count)                                                                      \
                for (int i = 0; i < count; i++)                                                    \
                    infinite += v[i] == (real)INFINITY;                                            \
        }                                                                                          \
        for (int k = 1; k <= EDGES; k++)                                                           \
            above[k] -= infinite;                                                                  \
        above[0] = finite;                                                                         \
        for (int k = 0; k < BINS; k++)                                                             \
            histogram[k] += above[k] - above[k + 1];                                               \
        return finite == size;                                                                     \
    }

HISTOGRAM(histogram_float, float, int32_t, INT32_MAX, 0x7f800000)
HISTOGRAM(histogram_double, double, int64_t, INT64_MAX, 0x7ff0000000000000)

#ifdef HAS_AVX512
#define MOST_ADDED 63 /* counts of six bits */

/* The same by binary search: a lane's bin picks the one counter, of six bits, that is increased. */
WITH_AVX512 static int histogram_avx512(const float *restrict values, int64_t size,
                                        const float *restrict edges, int64_t *restrict histogram)
{
    float sorted[16 + 4];
    int32_t lower[16] = {0}, upper[16] = {0};
    int64_t finite = 0;

    for (int i = 0; i < 20; i++)
        sorted[i] = i && i <= EDGES ? edges[i - 1] : INFINITY;
    for (int i = 0; i < 5; i++)
        lower[i] = upper[i + 5] = 1 << 6 * i;
    const __m512 by_4 = _mm512_loadu_ps(sorted + 4), by_2 = _mm512_loadu_ps(sorted + 2);
    const __m512 by_1 = _mm512_loadu_ps(sorted + 1), by_8 = _mm512_set1_ps(sorted[8]);
    const __m512i in_lower = _mm512_loadu_si512(lower), in_upper = _mm512_loadu_si512(upper);
    const __m512i one = _mm512_set1_epi32(1), two = _mm512_set1_epi32(2);
    const __m512i four = _mm512_set1_epi32(4), eight = _mm512_set1_epi32(8);

    for (int64_t from = 0; from < size; from += 16 * MOST_ADDED) {
        const int64_t left = size - from;
        const int64_t count = left < 16 * MOST_ADDED ? left : 16 * MOST_ADDED;
        __m512i low = _mm512_setzero_si512(), high = low;
        for (int64_t i = 0; i < count; i += 16) {
            const __mmask16 inside = count - i >= 16 ? 0xffff : (__mmask16)((1 << (count - i)) - 1);
            __m512 v = _mm512_maskz_loadu_ps(inside, values + from + i);
            /* 0x99: NaN of both kinds and infinity of both signs. */
            __mmask16 good = inside & ~_mm512_fpclass_ps_mask(v, 0x99);
            __m512i bin = _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(v, by_8, _CMP_GE_OQ), eight);
            __mmask16 up = _mm512_cmp_ps_mask(v, _mm512_permutexvar_ps(bin, by_4), _CMP_GE_OQ);
            bin = _mm512_mask_add_epi32(bin, up, bin, four);
            up = _mm512_cmp_ps_mask(v, _mm512_permutexvar_ps(bin, by_2), _CMP_GE_OQ);
            bin = _mm512_mask_add_epi32(bin, up, bin, two);
            up = _mm512_cmp_ps_mask(v, _mm512_permutexvar_ps(bin, by_1), _CMP_GE_OQ);
            bin = _mm512_mask_add_epi32(bin, up, bin, one);
            low = _mm512_add_epi32(low, _mm512_maskz_permutexvar_epi32(good, bin, in_lower));
            high = _mm512_add_epi32(high, _mm512_maskz_permutexvar_epi32(good, bin, in_upper));
        }
        for (int k = 0; k < BINS; k++) {
            __m512i counts = _mm512_srlv_epi32(k < 5 ? low : high, _mm512_set1_epi32(6 * (k % 5)));
            int64_t here = _mm512_reduce_add_epi32(_mm512_and_si512(counts, _mm512_set1_epi32(63)));
            histogram[k] += here;
            finite += here;
        }
    }
    return finite == size;
}
#endif

struct leaves;

/* A block of whole rows of the view, or a part of one. */
struct block {
    const void *left, *right;
    int64_t rows, width;  /* of the block */
    int64_t row, column;  /* where it begins in the view */
    int doubles;          /* float64, not float32 */
    double (*add_rows)(struct leaves *leaves, int count, int doubles);
};

/* --- what is not finite ------------------------------------------------------------------------- */

/* Copies in which both elements of a pair are 0 where one is not finite; what is not finite on one side
 * and not the same on the other is counted and is among the worst. */
#define CLEAN(name, real, whole, magnitude, infinity)                                              \
    VECTORISED static int64_t name(const real *restrict left, const real *restrict right,          \
                                   int64_t size, real *restrict to_left, real *restrict to_right)  \
    {                                                                                              \
        whole mismatches = 0;                                                                      \
        for (int64_t i = 0; i < size; i++) {                                                       \
            whole a, b;                                                                            \
            memcpy(&a, left + i, sizeof a);                                                        \
            memcpy(&b, right + i, sizeof b);                                                       \
            a &= magnitude;                                                                        \
            b &= magnitude;                                                                        \
            int finite = (a < infinity) & (b < infinity);                                          \
            int same = (left[i] == right[i]) | ((a > infinity) & (b > infinity));                  \
            to_left[i] = finite ? left[i] : 0;                                                     \
            to_right[i] = finite ? right[i] : 0;                                                   \
            mismatches += !(finite | same);                                                        \
        }                                                                                          \
        return mismatches;                                                                         \
    }

CLEAN(clean_floats, float, int32_t, INT32_MAX, 0x7f800000)
CLEAN(clean_doubles, double, int64_t, INT64_MAX, 0x7ff0000000000000)

static void find_mismatches(struct place *p, const void *left, const void *right, int64_t size,
                            int64_t index, int doubles)
{
    for (int64_t i = 0; i < size && may_be_worst(p, INFINITY, index + i); i++) {
        double a = value(left, i, doubles), b = value(right, i, doubles);
        int same = a == b || (a != a && b != b);
        if (!(isfinite(a) && isfinite(b)) && !same)
            insert_worst(p, INFINITY, index + i, a, b);
    }
}

static void clean(struct place *p, struct block *b)
{
    const int64_t unit = b->doubles ? sizeof(double) : sizeof(float);
    const char *left = b->left, *right = b->right;
    char *to_left = (char *)p->cleaned, *to_right = to_left + b->rows * b->width * unit;

    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t tile_row = (b->row + r) * p->tile_rows / p->rows;
        int64_t tile = b->column * p->tile_columns / p->columns, mismatches;
        for (int64_t at = 0, end; at < b->width; at = end, tile++) {
            end = end_of_tile(tile, p->columns, p->tile_columns) - b->column;
            end = end < b->width ? end : b->width;
            const int64_t offset = (r * b->width + at) * unit, size = end - at;
            const void *x = left + offset, *y = right + offset;
            void *to_x = to_left + offset, *to_y = to_right + offset;
            mismatches = b->doubles ? clean_doubles(x, y, size, to_x, to_y)
                                    : clean_floats(x, y, size, to_x, to_y);
            if (!mismatches)
                continue;
            p->tile_mismatch[tile_row * p->tile_columns + tile] += mismatches;
            find_mismatches(p, x, y, size, (b->row + r) * p->columns + b->column + at, b->doubles);
        }
    }
    b->left = to_left;
    b->right = to_right;
}

/* --- sums and maxima ---------------------------------------------------------------------------- */

INLINE double error_at(const void *left, const void *right, int64_t at, int doubles)
{
    double error = fabs(value(left, at, doubles) - value(right, at, doubles));
    /* The distance of two float64 extremes counts as the largest. */
    return error > DBL_MAX ? DBL_MAX : error;
}

/* A few rows of up to LEAF columns, `stride` elements apart. */
struct leaves {
    const void *left, *right;
    int64_t stride, width;
    double scale[2];
    double *column_sums; /* increased */
    double *column_max;  /* likewise; NULL where tiles are wider than that */
    double sums[GROUP];  /* found: a sum for each row */
};

/* The columns that are left over; returns the largest error there. */
INLINE double last_columns(struct leaves *l, int64_t from, int count, int doubles)
{
    double top = 0.0;

    for (int64_t k = from; k < l->width; k++)
        for (int g = 0; g < count; g++) {
            double error = error_at(l->left, l->right, g * l->stride + k, doubles);
            double scaled = error * l->scale[0] * l->scale[1];
            l->sums[g] += scaled * scaled;
            l->column_sums[k] += scaled * scaled;
            top = error > top ? error : top;
            if (l->column_max && error > l->column_max[k])
                l->column_max[k] = error;
        }
    return top;
}

INLINE double some_rows_portable(struct leaves *l, int count, int doubles)
{
    const reals most = (reals){0} + DBL_MAX;
    reals sum[GROUP][2] = {{{0}}}, best = {0};
    const int64_t whole = l->width - l->width % LANES;

    for (int64_t k = 0; k < whole; k += LANES)
        for (int half = 0; half < 2; half++) {
            const int64_t at = k + half * HALF;
            reals column, of_column, top = {0};
            memcpy(&column, l->column_sums + at, sizeof column);
            for (int g = 0; g < count; g++) {
                const int64_t from = at + g * l->stride;
                reals a = four(l->left, from, doubles), b = four(l->right, from, doubles);
                reals error = (reals)((bits)(a - b) & INT64_MAX), scaled = error;
                if (doubles) {
                    error = smaller(error, most);
                    scaled = error * l->scale[0] * l->scale[1];
                }
                reals square = scaled * scaled;
                sum[g][half] += square;
                column += square;
                top = larger(error, top);
            }
            memcpy(l->column_sums + at, &column, sizeof column);
            best = larger(top, best);
            if (l->column_max) {
                memcpy(&of_column, l->column_max + at, sizeof of_column);
                of_column = larger(top, of_column);
                memcpy(l->column_max + at, &of_column, sizeof of_column);
            }
        }
    for (int g = 0; g < count; g++) {
        const reals *s = sum[g];
        l->sums[g] = ((s[0][0] + s[0][1]) + (s[0][2] + s[0][3])) +
                     ((s[1][0] + s[1][1]) + (s[1][2] + s[1][3]));
    }
    double top = largest(best), last = last_columns(l, whole, count, doubles);
    return last > top ? last : top;
}

/* `count` is 1 or GROUP; returns the largest error. */
VECTORISED static double rows_portable(struct leaves *l, int count, int doubles)
{
    if (count == 1)
        return doubles ? some_rows_portable(l, 1, 1) : some_rows_portable(l, 1, 0);
    return doubles ? some_rows_portable(l, GROUP, 1) : some_rows_portable(l, GROUP, 0);
}

#ifdef HAS_AVX512
WITH_AVX512 INLINE __m512d lanes_avx512(const void *values, int64_t at, int doubles)
{
    return doubles ? _mm512_loadu_pd((const double *)values + at)
                   : _mm512_cvtps_pd(_mm256_loadu_ps((const float *)values + at));
}

WITH_AVX512 INLINE double some_rows_avx512(struct leaves *l, int count, int doubles)
{
    const __m512d zero = _mm512_setzero_pd(), most = _mm512_set1_pd(DBL_MAX);
    const __m512d scale = _mm512_set1_pd(l->scale[0]), again = _mm512_set1_pd(l->scale[1]);
    __m512d sum[GROUP] = {zero, zero, zero, zero}, best = zero;
    const int64_t whole = l->width - l->width % LANES;

    for (int64_t k = 0; k < whole; k += LANES) {
        __m512d column = _mm512_loadu_pd(l->column_sums + k), top = zero;
        for (int g = 0; g < count; g++) {
            const int64_t from = k + g * l->stride;
            __m512d a = lanes_avx512(l->left, from, doubles), b = lanes_avx512(l->right, from, doubles);
            __m512d error = _mm512_abs_pd(_mm512_sub_pd(a, b)), scaled = error;
            if (doubles) {
                error = _mm512_min_pd(error, most);
                scaled = _mm512_mul_pd(_mm512_mul_pd(error, scale), again);
            }
            __m512d square = _mm512_mul_pd(scaled, scaled);
            sum[g] = _mm512_add_pd(sum[g], square);
            column = _mm512_add_pd(column, square);
            top = _mm512_max_pd(error, top);
        }
        _mm512_storeu_pd(l->column_sums + k, column);
        best = _mm512_max_pd(top, best);
        if (l->column_max)
            _mm512_storeu_pd(l->column_max + k,
                             _mm512_max_pd(top, _mm512_loadu_pd(l->column_max + k)));
    }
    for (int g = 0; g < count; g++)
        l->sums[g] = sum_of_lanes(sum[g]);
    double top = _mm512_reduce_max_pd(best), last = last_columns(l, whole, count, doubles);
    return last > top ? last : top;
}

WITH_AVX512 static double rows_avx512(struct leaves *l, int count, int doubles)
{
    if (count == 1)
        return doubles ? some_rows_avx512(l, 1, 1) : some_rows_avx512(l, 1, 0);
    return doubles ? some_rows_avx512(l, GROUP, 1) : some_rows_avx512(l, GROUP, 0);
}
#endif

static void find_worst(struct place *p, const struct block *b, int64_t row, int64_t column,
                       int64_t width, int count)
{
    for (int64_t r = row; r < row + count; r++)
        for (int64_t c = column; c < column + width; c++) {
            const int64_t at = r * b->width + c;
            const int64_t index = (b->row + r) * p->columns + b->column + c;
            double error = error_at(b->left, b->right, at, b->doubles);
            if (may_be_worst(p, error, index))
                insert_worst(p, error, index, value(b->left, at, b->doubles),
                             value(b->right, at, b->doubles));
        }
}

/* A row of tiles from the largest errors of some columns, which begin anew. */
static void fill_tiles(double *restrict tiles, double *restrict column_max, const int64_t *ends,
                       int64_t count)
{
    for (int64_t tile = 0, k = 0; tile < count; tile++) {
        double most = tiles[tile];
        for (; k < ends[tile]; k++) {
            most = column_max[k] > most ? column_max[k] : most;
            column_max[k] = 0.0;
        }
        tiles[tile] = most;
    }
}

/* All rows of a block in up to LEAF of its columns, from `column` on; their sums are `apart` and are
 * increased. */
static void strip(struct place *p, const struct block *b, int64_t column, int64_t width,
                  double *restrict sums, int64_t apart)
{
    const char *left = b->left, *right = b->right;
    const int64_t unit = b->doubles ? sizeof(double) : sizeof(float);
    const int64_t in_view = b->column + column, first = in_view * p->tile_columns / p->columns;
    double column_max[LEAF] = {0};
    int64_t ends[LEAF], tiles = 0;
    struct leaves leaves = {.stride = b->width, .width = width, .scale = {p->scale[0], p->scale[1]},
                            .column_sums = p->column_sums + column};

    do {
        int64_t end = end_of_tile(first + tiles, p->columns, p->tile_columns) - in_view;
        ends[tiles++] = end < width ? end : width;
    } while (ends[tiles - 1] < width);
    leaves.column_max = tiles > 1 ? column_max : NULL;

    for (int64_t r = 0; r < b->rows;) {
        const int64_t tile_row = (b->row + r) * p->tile_rows / p->rows;
        double *found = p->tile_max + tile_row * p->tile_columns + first;
        int64_t stop = end_of_tile(tile_row, p->rows, p->tile_rows) - b->row;
        stop = stop < b->rows ? stop : b->rows;
        while (r < stop) {
            const int count = stop - r < GROUP ? 1 : GROUP;
            leaves.left = left + (r * b->width + column) * unit;
            leaves.right = right + (r * b->width + column) * unit;
            double top = b->add_rows(&leaves, count, b->doubles);
            if (may_be_worst(p, top, (b->row + r) * p->columns + in_view))
                find_worst(p, b, r, column, width, count);
            if (tiles == 1 && top > *found)
                *found = top;
            for (int g = 0; g < count; g++, r++)
                sums[r * apart] += leaves.sums[g];
        }
        if (tiles > 1)
            fill_tiles(found, column_max, ends, tiles);
    }
}

static void add_up(struct place *p, const struct block *b)
{
    const int64_t whole = b->width / LEAF, rest = b->width % LEAF;

    memset(p->column_sums, 0, b->width * sizeof *p->column_sums);
    memset(p->leaf_sums, 0, b->rows * whole * sizeof *p->leaf_sums);
    for (int64_t leaf = 0; leaf < whole; leaf++)
        strip(p, b, leaf * LEAF, LEAF, p->leaf_sums + leaf, whole);
    for (int64_t r = 0; r < b->rows; r++)
        p->row_sums[r] = whole ? tree_sum(p->leaf_sums + r * whole, whole) : 0.0;
    if (rest)
        strip(p, b, whole * LEAF, rest, p->row_sums, 1);
}

/* Adds a run of sums which begins at `start`; neighbours of one bin are added up first. */
static void add_to_axis(struct axis *axis, const double *restrict sums, int64_t start, int64_t count)
{
    const int64_t bins = axis->bins, length = axis->length, inner = axis->inner;
    double *restrict profile = axis->profile;
    int64_t index = start / inner % length, left = inner - start % inner;

    if (bins == length && inner == 1 && start + count <= length) {
        for (int64_t i = 0; i < count; i++)
            profile[start + i] += sums[i];
        return;
    }
    int64_t bin = index * bins / length;
    for (int64_t i = 0; i < count;) {
        const int64_t next = end_of_tile(bin, length, bins);
        double sum = 0.0;
        for (; i < count && index < next; index++, left = inner) {
            int64_t stop = i + left < count ? i + left : count;
            for (; i < stop; i++)
                sum += sums[i];
        }
        profile[bin++] += sum;
        if (index == length)
            index = bin = 0;
    }
}

static void add_block(struct place *p, struct block *b, enum version version)
{
    const void *sides[2] = {b->left, b->right};
    int finite = 1;

    for (int side = 0; side < 2; side++) {
        int64_t *histogram = p->histograms + side * BINS, size = b->rows * b->width;
        if (b->doubles)
            finite &= histogram_double(sides[side], size, p->edges, histogram);
#ifdef HAS_AVX512
        else if (version == AVX512_VERSION)
            finite &= histogram_avx512(sides[side], size, p->float_edges, histogram);
#endif
        else
            finite &= histogram_float(sides[side], size, p->float_edges, histogram);
    }
    if (!finite)
        clean(p, b);
    b->add_rows = rows_portable;
#ifdef HAS_AVX512
    if (version == AVX512_VERSION)
        b->add_rows = rows_avx512;
#endif
    add_up(p, b);
    for (int64_t k = 0; k < p->count_of_row_axes; k++)
        add_to_axis(&p->row_axes[k], p->row_sums, b->row, b->rows);
    for (int64_t k = 0; k < p->count_of_column_axes; k++)
        add_to_axis(&p->column_axes[k], p->column_sums, b->column, b->width);
}

/* Adds whole rows of the view, or a part of one, to what is known, block by block.
 *
 * left, right: `count` values as stored; their codes are those of compiled.py.
 * start: flat index of the first.
 * step: elements of a block.
 * doubles: go over float64, not over float32.
 * portable: without AVX-512 and AVX2, whatever the processor has: for the tests.
 */
void locate_run(struct place *p, const char *left, int64_t left_code, const char *right,
                int64_t right_code, int64_t start, int64_t count, int64_t step, int doubles, int portable)
{
    const enum version version = portable ? PORTABLE_VERSION : widest_version();

    for (int64_t at = 0; at < count; at += step) {
        const int64_t size = count - at < step ? count - at : step;
        struct block block = {
            .left = fetch_run(left, left_code, at, size, p->byte_values, doubles, version, p->widened),
            .right = fetch_run(right, right_code, at, size, p->byte_values, doubles, version,
                               p->widened + size),
            .width = size < p->columns ? size : p->columns,
            .row = (start + at) / p->columns,
            .column = (start + at) % p->columns,
            .doubles = doubles,
        };
        block.rows = size / block.width;
        add_block(p, &block, version);
    }
}
