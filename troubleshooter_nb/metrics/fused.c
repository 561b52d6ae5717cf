/* One pass over a block of float32 pairs; see compiled.py. Plain C99, no Python headers.
 *
 * Every sum is formed in the order of metrics.partial.pairwise_sum: leaves of 128 elements with 8
 * accumulators. Compile with -ffp-contract=off and without -ffast-math, or the bits change.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LEAF 128
#define LANES 8
#define SUMS 7

/* The baseline and an AVX2 version in one library, chosen when it is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif

static double fold(const double *lane)
{
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static double largest(const double *lane)
{
    double top = lane[0];
    for (int j = 1; j < LANES; j++)
        top = lane[j] > top ? lane[j] : top;
    return top;
}

/* Returns 0 at the first NaN or infinity: the caller leaves such a block to numpy.
 *
 * table: SUMS x leaves, sums of each leaf: left, left^2, right, right^2, error, error^2, relative.
 * maxima: left, -left, right, -right, error, relative, tolerance.
 * counts: zeros of left and right, close elements, index of the largest error.
 * fields: 2048 counts of errors by the exponent field of float64.
 */
VECTORISED int fused_float32(const float *restrict left, const float *restrict right, int64_t size,
                             double rtol, double atol, double *restrict table,
                             double *restrict maxima, int64_t *restrict counts,
                             int64_t *restrict fields)
{
    double a[LEAF], b[LEAF], error[LEAF], relative[LEAF], tolerance[LEAF];
    double top[6][LANES], lane[SUMS][LANES], leaf_top[LANES];
    /* Four histograms: neighbours often fall into one bin, and its counter would be waited for. */
    int64_t bins[4][2048];
    int64_t leaves = size / LEAF, worst = 0, left_zero = 0, right_zero = 0, close = 0;
    double worst_error = -1.0;

    memset(bins, 0, sizeof bins);
    for (int m = 0; m < 6; m++)
        for (int j = 0; j < LANES; j++)
            top[m][j] = -INFINITY;
    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        const float *x = left + leaf * LEAF, *y = right + leaf * LEAF;
        int zero_a = 0, zero_b = 0, near = 0;
        for (int i = 0; i < LEAF; i++) {
            a[i] = (double)x[i];
            b[i] = (double)y[i];
        }
        for (int i = 0; i < LEAF; i++) {
            double reference = fabs(b[i]), d = fabs(a[i] - b[i]);
            error[i] = d;
            relative[i] = (reference == 0.0 ? 0.0 : d) / (reference == 0.0 ? 1.0 : reference);
            tolerance[i] = d / (reference + 1.0);
        }
        for (int i = 0; i < LEAF; i++) {
            zero_a += a[i] == 0.0;
            zero_b += b[i] == 0.0;
            near += error[i] <= fabs(b[i]) * rtol + atol;
        }
        for (int j = 0; j < LANES; j++) {
            lane[0][j] = a[j];
            lane[1][j] = a[j] * a[j];
            lane[2][j] = b[j];
            lane[3][j] = b[j] * b[j];
            lane[4][j] = error[j];
            lane[5][j] = error[j] * error[j];
            lane[6][j] = relative[j];
            leaf_top[j] = error[j];
        }
        for (int k = LANES; k < LEAF; k += LANES)
            for (int j = 0; j < LANES; j++) {
                int i = k + j;
                lane[0][j] += a[i];
                lane[1][j] += a[i] * a[i];
                lane[2][j] += b[i];
                lane[3][j] += b[i] * b[i];
                lane[4][j] += error[i];
                lane[5][j] += error[i] * error[i];
                lane[6][j] += relative[i];
                leaf_top[j] = error[i] > leaf_top[j] ? error[i] : leaf_top[j];
            }
        for (int k = 0; k < LEAF; k += LANES)
            for (int j = 0; j < LANES; j++) {
                int i = k + j;
                top[0][j] = a[i] > top[0][j] ? a[i] : top[0][j];
                top[1][j] = -a[i] > top[1][j] ? -a[i] : top[1][j];
                top[2][j] = b[i] > top[2][j] ? b[i] : top[2][j];
                top[3][j] = -b[i] > top[3][j] ? -b[i] : top[3][j];
                top[4][j] = relative[i] > top[4][j] ? relative[i] : top[4][j];
                top[5][j] = tolerance[i] > top[5][j] ? tolerance[i] : top[5][j];
            }
        for (int s = 0; s < SUMS; s++)
            table[s * leaves + leaf] = fold(lane[s]);
        /* NaN compares false; finite float32 squares stay far below this. */
        if (!(table[leaves + leaf] < 1e300 && table[3 * leaves + leaf] < 1e300))
            return 0;
        left_zero += zero_a;
        right_zero += zero_b;
        close += near;
        if (largest(leaf_top) > worst_error) {
            worst_error = largest(leaf_top);
            for (int i = 0; i < LEAF; i++)
                if (error[i] == worst_error) {
                    worst = leaf * LEAF + i;
                    break;
                }
        }
        for (int i = 0; i < LEAF; i += 4)
            for (int j = 0; j < 4; j++) {
                int64_t bits;
                memcpy(&bits, &error[i + j], sizeof bits);
                bins[j][bits >> 52]++;
            }
    }
    for (int i = 0; i < 2048; i++)
        fields[i] = bins[0][i] + bins[1][i] + bins[2][i] + bins[3][i];
    for (int m = 0; m < 4; m++)
        maxima[m] = largest(top[m]);
    maxima[4] = worst_error;
    maxima[5] = largest(top[4]);
    maxima[6] = largest(top[5]);
    counts[0] = left_zero;
    counts[1] = right_zero;
    counts[2] = close;
    counts[3] = worst;
    return 1;
}
