/* Sums that relations between tensors are told from; see relation_loop.py. C99 with the vector types
 * of GCC and Clang; no Python headers.
 *
 * They are those of metrics.signatures but for the order of adding. What is not finite leaves a sum
 * that is none either, and numpy goes over it again.
 */
#include "loops.h"

#define MOST_AXES 32
#define LINE 16  /* floats of a line of the cache */
#define TILE 64  /* rows and columns that stay in the first cache, and in its table of pages */
#define AHEAD 32 /* columns: far ones are asked for before they are needed. Measured. */

/* What is known of a run of values; relation_loop.py has the same list. */
struct run {
    double total, square; /* of the distances from a shift */
    double low, high;
};

INLINE double sum_of(reals a)
{
    return (a[0] + a[1]) + (a[2] + a[3]);
}

INLINE void sums(const void *values, int64_t count, double shift, struct run *run,
                 const int doubles)
{
    const reals none = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    const reals by = {shift, shift, shift, shift};
    reals total[2] = {{0}}, square[2] = {{0}}, low[2] = {none, none}, high[2] = {none, none};
    int64_t i = 0;

    for (; i + 2 * HALF <= count; i += 2 * HALF)
        for (int k = 0; k < 2; k++) {
            const reals found = four(values, i + k * HALF, doubles), apart = found - by;
            total[k] += apart;
            square[k] += apart * apart;
            low[k] = larger(-found, low[k]);
            high[k] = larger(found, high[k]);
        }
    run->total = sum_of(total[0] + total[1]);
    run->square = sum_of(square[0] + square[1]);
    run->low = -largest(larger(low[0], low[1]));
    run->high = largest(larger(high[0], high[1]));
    for (; i < count; i++) {
        const double one = value(values, i, doubles), apart = one - shift;
        run->total += apart;
        run->square += apart * apart;
        run->low = one < run->low ? one : run->low;
        run->high = one > run->high ? one : run->high;
    }
}

/* Sums of the distances of values from `shift`, and the smallest and largest of them. */
VECTORISED void shifted_sums(const void *values, int64_t count, int doubles, double shift,
                             struct run *run)
{
    if (doubles)
        sums(values, count, shift, run, 1);
    else
        sums(values, count, shift, run, 0);
}

/* Two arrays of rows and columns; strides in elements. */
struct plane {
    const char *left, *right;
    int64_t rows, columns;
    const int64_t *of_left, *of_right;
};

INLINE double apart_at(const struct plane *p, int64_t row, int64_t column, const int doubles)
{
    return value(p->left, row * p->of_left[0] + column * p->of_left[1], doubles) -
           value(p->right, row * p->of_right[0] + column * p->of_right[1], doubles);
}

/* Four neighbours along the columns. */
INLINE reals four_of(const void *values, int64_t from, int64_t step, const int doubles,
                     const int is_near)
{
    if (is_near)
        return four(values, from, doubles);
    if (doubles) {
        const double *of = (const double *)values + from;
        const reals found = {of[0], of[step], of[2 * step], of[3 * step]};
        return found;
    }
    const float *of = (const float *)values + from;
    const floats found = {of[0], of[step], of[2 * step], of[3 * step]};
    return __builtin_convertvector(found, reals);
}

/* `near`: whether neighbours along the columns are neighbours in memory, of each side. */
INLINE double square_of(const struct plane *p, const int doubles, const int left_near,
                        const int right_near)
{
    const int64_t width = doubles ? sizeof(double) : sizeof(float), whole = p->columns / HALF * HALF;
    double total = 0.0;

    for (int64_t tile = 0; tile < p->rows; tile += TILE)
        for (int64_t begin = 0; begin < whole; begin += TILE) {
            const int64_t end = whole - begin < TILE ? whole : begin + TILE;
            const int64_t bottom = p->rows - tile < TILE ? p->rows : tile + TILE;
            reals square[2] = {{0}};
            for (int64_t first = tile; first < bottom; first += LINE) {
                const int64_t last = bottom - first < LINE ? bottom : first + LINE;
                for (int64_t column = begin; column < end; column += HALF) {
                    if (!left_near && column + AHEAD + HALF <= whole)
                        for (int k = 0; k < HALF; k++)
                            __builtin_prefetch(p->left +
                                               width * (first * p->of_left[0] +
                                                        (column + AHEAD + k) * p->of_left[1]));
                    for (int64_t row = first; row < last; row++) {
                        const reals ours =
                            four_of(p->left, row * p->of_left[0] + column * p->of_left[1],
                                    p->of_left[1], doubles, left_near);
                        const reals theirs =
                            four_of(p->right, row * p->of_right[0] + column * p->of_right[1],
                                    p->of_right[1], doubles, right_near);
                        square[row & 1] += (ours - theirs) * (ours - theirs);
                    }
                }
            }
            total += sum_of(square[0] + square[1]);
        }
    for (int64_t row = 0; row < p->rows; row++)
        for (int64_t column = whole; column < p->columns; column++) {
            const double apart = apart_at(p, row, column, doubles);
            total += apart * apart;
        }
    return total;
}

VECTORISED static double square_of_floats(const struct plane *p)
{
    if (p->of_right[1] != 1)
        return square_of(p, 0, 0, 0);
    return p->of_left[1] == 1 ? square_of(p, 0, 1, 1) : square_of(p, 0, 0, 1);
}

VECTORISED static double square_of_doubles(const struct plane *p)
{
    if (p->of_right[1] != 1)
        return square_of(p, 1, 0, 0);
    return p->of_left[1] == 1 ? square_of(p, 1, 1, 1) : square_of(p, 1, 0, 1);
}

/* The square of the distance of two arrays of two axes at least; strides in elements. Fastest where the
 * last axis is that of neighbours on the right, and the one before that of neighbours on the left. */
double squared_distance(const char *left, const char *right, int doubles, int64_t axes,
                        const int64_t *shape, const int64_t *of_left, const int64_t *of_right)
{
    const int64_t outer = axes - 2, width = doubles ? sizeof(double) : sizeof(float);
    struct plane plane = {left, right, shape[outer], shape[outer + 1], of_left + outer,
                          of_right + outer};
    int64_t index[MOST_AXES] = {0};
    double total = 0.0;

    for (;;) {
        int64_t axis = outer - 1;
        total += doubles ? square_of_doubles(&plane) : square_of_floats(&plane);
        for (; axis >= 0; axis--) {
            plane.left += width * of_left[axis];
            plane.right += width * of_right[axis];
            if (++index[axis] < shape[axis])
                break;
            plane.left -= width * shape[axis] * of_left[axis];
            plane.right -= width * shape[axis] * of_right[axis];
            index[axis] = 0;
        }
        if (axis < 0)
            return total;
    }
}
