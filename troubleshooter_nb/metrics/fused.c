/* One pass over a run of float32 pairs; see compiled.py. C99 with the vector types of GCC and Clang,
 * no Python headers.
 *
 * Every sum is formed in the order of metrics.partial.pairwise_sum: whole rows in leaves of 128
 * elements with 8 accumulators, what is left over as numpy divides it. Compile with
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

/* The baseline, an AVX2 and an AVX-512 version in one library, chosen when it is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define VECTORISED __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
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

/* Returns 0 at the first NaN or infinity: the caller leaves such a run to numpy.
 *
 * leaves: how many leaves of 128 elements come first; the rest is summed as numpy would.
 * table: SUMS x leaves, sums of each leaf: left, left^2, right, right^2, error, error^2, relative.
 * rest: SUMS, the same of the rest.
 * maxima: left, -left, right, -right, error, relative, tolerance.
 * counts: zeros of left and right, close elements, index of the largest error.
 * fields: 2048 counts of errors by the exponent field of float64.
 */
VECTORISED int fused_float32(const float *restrict left, const float *restrict right, int64_t size,
                             int64_t leaves, double rtol, double atol, double *restrict table,
                             double *restrict rest, double *restrict maxima,
                             int64_t *restrict counts, int64_t *restrict fields)
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
    any_length(left, right, leaves * LEAF, size - leaves * LEAF, rtol, atol, rest, &seen, bins[0]);
    if (!(rest[1] < 1e300 && rest[3] < 1e300))
        return 0;
    for (int i = 0; i < BINS; i++)
        fields[i] = bins[0][i] + bins[1][i] + bins[2][i] + bins[3][i];
    memcpy(maxima, &seen.left, 7 * sizeof *maxima);
    memcpy(counts, &seen.left_zero, 4 * sizeof *counts);
    return 1;
}
