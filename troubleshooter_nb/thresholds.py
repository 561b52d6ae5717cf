"""The numbers that decide: each with what it says, and where it comes from.

"Derived" follows from what the comment says, "measured" was seen in real or seeded runs,
"convention" is what people use. "By hand" was chosen by judgement and kept because the seeded
faults and the pairs of real networks came out right; nobody has tuned it. Budgets were chosen by
hand for the time they take. Bounds of rounding itself are a model of their own, `metrics.noise`,
and how large a file may be says `formats.limits`.
"""


# What rounding leaves, and when a formula is the one that was computed

# A fit within this many times the rounding of its output is the formula: a few operations,
# float32 inside. By hand.
FORMULA_FLOORS = 8.0
# As `FORMULA_FLOORS`, of attention, which rounds its scores, its shares and their sum. By hand.
ATTENTION_FLOORS = 16.0
# As `FORMULA_FLOORS`, of a step that another step's mask explains. By hand.
FROZEN_MASK_FLOORS = 16.0
# Residuals within this many floors are rounding, whatever they explain. By hand.
ROUNDING_FLOORS = 4.0
BEYOND_ROUNDING = 4.0  # Times rounding: from here on the formula or the kernel errs. By hand.
# A sum or product of earlier values that is worse than this many floors in a sample is no
# candidate. By hand.
CANDIDATE_FLOORS = 12.0
# A fit this many times worse than another one is not an equal explanation. By hand.
CLEARLY_WORSE = 3.0
# Times: sides that are both off their common formula, one at most so much further than the other,
# did the same. By hand.
BADLY_CONDITIONED = 10.0
BADLY_CONDITIONED_FIT = 1e-2  # Residual that bad conditioning leaves at most. By hand.
# Of two layers that explain a side each, the floors that each leaves of the other side. By hand.
OTHER_LAYER_FLOORS = 1e3
# Of how sure that is, where only the recorded classes say it. By hand.
OTHER_CLASS_SHARE = 0.8
UNRELATED_FIT = 0.3  # Residual above which the output is not that of the formula at all. By hand.
# Beyond this residual no formula of the layer is the one that was computed: sums kept in bfloat16
# leave about 1e-2. By hand.
UNLIKE = 0.03
# Formats coarser than this are rounded to before formulas are compared: between float32 (2^-24)
# and float16 (2^-11). Derived.
SHORT_ROUNDOFF = 2.0**-20
# Roundoffs of a short format that the right formula leaves, rounded likewise: few elements round
# otherwise. By hand.
LEFT_OF_SHORT = 0.05
ROUNDED_BEFORE = 4.0  # Roundoffs that a few rounded operators before this one add up to. By hand.
LOST_BITS = 8  # Bits that values lose on their way through a short format, at least. By hand.
# Roundoffs of the short format by which values differ that passed through it. By hand.
LOST_FORMAT_ROUNDOFFS = (0.05, 8.0)
# Shares of elements that a format holds exactly: of the side that was rounded to it, at least; of
# the other, at most. By hand.
HELD_SHARE, NOT_HELD_SHARE = 0.999, 0.5
CAST_UNDONE = 0.5  # Share of the difference that a cast leaves at most. By hand.
# Error of the elements that did not overflow or vanish, above which the whole is another matter.
# By hand.
OTHER_ELEMENTS_ERROR = 0.05
INEXACT_FUNCTIONS = 1e-4  # tanh and exp of MindSpore on the CPU are this inexact. Measured.
# Squares smaller than this, relative to what they are left of, are float64's rounding. Derived.
CANCELLED_SQUARES = 1e-11
NEGLIGIBLE_RESIDUAL = 1e-7  # Residuals of float32 rounding do not tell explanations apart. Derived.
EQUAL_ROUNDINGS = 8.0  # Roundings within which values are called equal before a run. By hand.
FOLDED_BIAS_ROUNDINGS = 16.0  # Of the few operations that fold a bias. By hand.
# Relative error of a product of matrices over the roundoff of the format both were rounded to,
# see `narrower_format`. Measured.
PRODUCT_OVER_ROUNDOFF = 0.6
# Roundoffs of the narrower format, as the relative error of values that were stored in it and that
# were computed in it; of the largest error, relative to the largest value. By hand.
STORED_ROUNDOFFS, COMPUTED_ROUNDOFFS, FARTHEST_ROUNDOFFS = (0.125, 4.0), (0.25, 2.0), 32
VARYING = 0.75  # Share of the largest error that all have where they vary as rounding. By hand.
# How far noise leans to one sign and follows the reference, beside chance (2 sigma): a tanh GELU
# against the exact one leans by 0.10 and follows by 0.22 or more. Measured.
NOISE_LEAN, NOISE_SIGMAS = 0.1, 2.0
FOLLOWING = 0.9  # Cosine of error and reference from which the error is a factor. By hand.
# An error of so many roundoffs, all of one sign, is no rounding. By hand.
SYSTEMATIC_ROUNDOFFS = 16.0
FEWEST_SYSTEMATIC = 64  # Values of which `SYSTEMATIC_ROUNDOFFS` says something. By hand.
# Times what calls of an operator differ from themselves: few of them may all have been lucky. By
# hand.
SELF_NOISE_MARGIN = 2.0

# Numbers and choices that fits say

# From this uncertainty on the values do not decide a choice: its rival is nearer than four
# standard errors. Derived.
OPEN_CHOICE = 0.25
# A residual below this share of the roundoff is luck of few elements, not precision. By hand.
LUCKY_RESIDUAL = 0.1
# Relative distance within which a scale is the square of another one, and doubt that this leaves at
# most. By hand.
SAME_SQUARE = 5e-3
SAME_NUMBER = 1e-3  # Relative distance within which a fitted number is the other one. By hand.
NO_FACTOR = (
    0.5  # A factor, or part of a sum, that leaves this share of the output over is none. By hand.
)
SAME_FACTOR = 1e-4  # Relative distance within which a factor has a name. By hand.
# A usual scale that leaves at most so many times what a fitted one does may be the layer's. By
# hand.
FITTED_BY_CHANCE = 3.0
# Distance of the logarithms within which two bases of frequencies are one. By hand.
SAME_THETA = 1e-5
# Of a formula whose values were rounded to bfloat16, in a table of sines. Derived.
ROUNDED_FREQUENCIES = 2e-2
# Of tables of cosines for positions: rows that are read, offsets that are tried; the slowest rate
# that an arc cosine tells; how far, of its range, a column may be off a line; how near, as a
# logarithm, a fitted base or scale is to a usual one. By hand.
TABLE_ROWS, MOST_TABLE_OFFSETS = 64, 24
LEAST_TABLE_RATE, LINES_OF_ANGLES, NEAR_USUAL = 1e-5, (1e-3, 0.15), 5e-2
LEAST_TURN = 1e-3  # Where the last pairs hardly turn, their rates are noise. By hand.
# Length of a pair after, against before; beyond this it was not only turned. By hand.
TURNED_LENGTH = 3e-3
# Beside more than this the variance is nothing: such a fit multiplies by one number. By hand.
LARGEST_EPS = 0.2
# Calls behind a layer that may be the norm which was folded into it. By hand.
NORMS_BEHIND = 4
LARGEST_FOLDED_EPS = 0.1  # As `LARGEST_EPS`, of a normalisation folded into weights. By hand.
AFFINE_DOUBT = 1e-5  # Of a fitted scale and shift, relative. By hand.
# Roundoffs within which fitted slopes of channels are one number. By hand.
SLOPE_ROUNDOFFS = 32.0
# Relative spread within which deviations of channels are one number. By hand.
SAME_DEVIATION = 1e-3
# Residual in a few columns above which rows are no multiples of each other. By hand.
NO_MULTIPLE = 0.1
# Root mean square of what a norm without a weight gives; an eps beside a small variance lowers it.
# Derived, the lower end by hand.
NORMALISED_HEIGHT = 0.2, 1.001
SOFTMAX_SUM = 1e-2  # How far a row may sum from one where another formula was used. By hand.
# A narrow format inside explains an error only if no more than this share is left. By hand.
NARROW_PATH_EXPLAINS = 0.3
BENT_SCORES = 0.5  # A cap bends scores away from any multiple of them by less than this. By hand.
LEAST_CAP, LARGEST_CAP = 0.5, 500.0  # Soft caps of scores in use are 20 to 50. Convention.
# A score this far down is masked, by whatever value; masks in use are -1e4 and below. Convention.
MASKED_SCORE = -1e3
# How many times what is written into hidden places must be larger than all else, so that the norm
# is its own. Convention.
FILLED_BY = 1e3
HIDDEN_SCORE = -1e4  # What hides a place where the mask is ours to make. Convention.
# Heads that share nothing with the true ones leave about all of the output. By hand.
OTHER_HEADS = 0.9
OTHER_SOFTMAX = 0.1  # Residual from which on the softmax may have been over another axis. By hand.
# Another order of the kernel leaves about 1, another content of the border less than this.
# By hand.
OTHER_KERNEL = 0.6
# Of the mean fourth power of the distance, in a part that stands for the whole: 0.7 of distance.
# Derived.
SHARE_SEEN = 0.25
# A fault is local where it has at most this share of the elements, so many times further apart
# than the others. By hand.
LOCAL_SHARE, LOCAL_TIMES = 0.25, 8.0
# Floors, and times the other side, from which a kernel is inexact. By hand.
INEXACT_KERNEL, INEXACT_OVER_OTHER = 64.0, 16.0
# Of an inexact kernel's residual: another formula that leaves less explains the side instead. By
# hand.
BETTER_FORMULA = 0.3
# Roundoffs of the steepest slope that random slopes spread over, at least. By hand.
RANDOM_SLOPES_ROUNDOFFS = 16.0
# How likely a mask makes the factor of attentions' gradients, once the factor is proved. By hand.
GRADIENT_FACTOR_SHARE = 0.75

# Chance: what a distribution does seldom

# Kolmogorov and Smirnov, times sqrt(n): a uniform sample passes this in 1 of 1000 cases. Derived.
UNIFORM_SLOPES = 1.95
# Kolmogorov's two-sample statistic exceeds this, times sqrt(2/n), once in 3,000 pairs of draws.
# Derived.
TWO_DRAWS_APART = 2.1
# Kolmogorov's statistic times sqrt(n) exceeds this once in 130,000 draws of the distribution
# itself: a network has hundreds of tensors. Derived.
DRAW_APART = 2.5
BOUND_GAP = 20.0  # exp(-20): so seldom a uniform draw stays further below its bound. Derived.
DRAWN_SIGMAS = 5.0  # Standard errors: one draw in two million lies further off. Derived.
# How near to a whole number the square of a norm over that of a fill is, such as of masked scores;
# and times its rounding that the others may be apart on average: values near 0 are apart by more.
# By hand.
LEFT_OF_FILL, ROUNDED_BESIDE_FILL = 1e-2, 100.0
CHANCE_SIGMAS = 4.0  # Standard errors: one draw in 16,000 lies further off. Derived.
# Root mean squares beyond which no value of a draw lies: of normal ones in 1e9 draws. Derived.
FARTHEST_DRAWN = 8.0
# Standard errors by which means and squares of two draws are apart at least: both nearer by chance
# in one of 50,000. Derived.
NO_OTHER_DRAW = 0.01
FEWEST_DRAWN = 256  # Values of a draw; fewer look like many a distribution. By hand.
FEWEST_NORMAL = 20_000  # As `FEWEST_DRAWN`, to tell normal distributions that were cut. By hand.
# Values below which not looking like a draw says little, and what is left of the confidence then.
# By hand.
FEWEST_TO_REFUSE, OPEN_DRAW = 1024, 0.6
FEWEST_DRAWN_TENSORS = 3  # Tensors of one side that say by what rule it was drawn. By hand.
FEWEST_DRAWN_TOGETHER = 4096  # Values of those tensors in all. By hand.
# Relative difference from which weights of two sides have nothing in common. By hand.
UNRELATED_WEIGHTS = 0.5
# Student's t of a correlation: of 16 independent values, one pair in a million has as much.
# Derived.
CORRELATED_T = 8.0
CORRELATED_COSINE = 0.1  # Least correlation of tensors that are alike. By hand.
SAME_VALUES_NOISE = 1e-2  # Of the spread: what `find_relation` takes for the same values. By hand.
SIGN_OF_RECTIFIER = 0.9  # Of the zeros at inputs of one sign: a rectifier, not a dropout. By hand.

# Fewest values that say something

FEWEST_TO_FIT = 8  # Elements of an output that can tell one formula from another. By hand.
FEWEST_OUTPUTS = 12  # As `FEWEST_TO_FIT`, of layers with more settings. By hand.
# Of a share of attention, times the keys: smaller ones do not say whether they were dropped. Of the
# numbers of a value: so many keys can be told apart. By hand.
LEAST_DROPPED_SHARE, SOLVED_KEYS = 0.05, 0.75
SAME_VALUE = 1e-3  # Of the norm of several values: no further apart, they are one. By hand.
SHARE_SOLVED = 1e-3  # A share of attention that is solved for and is not zero. By hand.
FEWEST_UNITS = 16  # Units that a dropout may drop. By hand.
FEWEST_SLOPES = 48  # Slopes that can be told to be random. By hand.
FEWEST_POSITIONS = 4  # Positions that can be told to be turned. By hand.
# Channels that a normalisation can be told by that was folded into them. By hand.
FEWEST_CHANNELS = 4
FEWEST_BETWEEN = 24  # Elements of a value made of earlier ones. By hand.
FEWEST_SCORES = 64  # Scores that an attention can be told by. By hand.
FEWEST_ANGLES = 3  # Positions, and frequencies, of a table of angles. By hand.
FEWEST_FREQUENCIES = 3  # Values of a table of frequencies. By hand.
FEWEST_ATTENTIONS = 2  # One attention may have a factor for any reason. By hand.
FEWEST_TO_BE_LOCAL = 64  # Elements of an output in which a fault can be local. By hand.
FEWEST_OF_FORMAT = 16  # Elements that all have few bits: a format, no chance. By hand.
FEWEST_ZEROS = 8  # Zeros that say that small values vanish. By hand.
FEWEST_MOVED = 16  # Elements of a tensor that can be told to be another one. By hand.
FEWEST_WHOLE = 8  # Different whole numbers of such a tensor. By hand.
FEWEST_ORDERED = 8  # Elements that can be told to be in another order. By hand.
FEWEST_OF_STATISTICS = 6  # Elements of a tensor whose distribution is asked for. By hand.
FEWEST_OVERWRITTEN = 32  # Elements of a tensor that may hold a later value. By hand.
FEWEST_CLIPPED = 4  # Elements at a bound that say that it is one. By hand.
FEWEST_TABLE_ROWS = 4  # Rows of a table in which one can be the padding. By hand.
LEAST_IMAGE = 16  # Pixels along the shorter side of an image. By hand.
COUNTED_PER_LEVEL = 4  # Independent values that a scaled image proves, per element. By hand.
# Decimal digits of float32: independent values that an equal draw proves, per element. Derived.
DIGITS_OF_DRAW = 6
# Values below which correlation and the pattern of rounding are chance. By hand.
FEWEST_TO_CORRELATE = 16
# Correlation by chance at most; relative error of unrelated tensors. By hand.
MOST_CHANCE, UNRELATED_ERROR = 0.25, 0.5
# Two tensors are apart by at most so many times what their fingerprints say, and what these say is
# at most so many times that. Measured, on 16,000 differences of 8 kinds.
FINGERPRINT_BELOW, FINGERPRINT_ABOVE = 6.5, 2.5
FINGERPRINT_FLOOR = 1e-6  # Relative; by so much two ways to sum one fingerprint differ. Measured.
REORDERED_ERROR = 0.01  # By fingerprints, of as many values in another order. By hand.
BLIND_TOLERANCES = 10.0  # Times rtol: what differs by more passed by atol alone. By hand.
FEWEST_STORED = 64  # Values that can be told to have been stored in a narrower format. By hand.
# Values that can be told to have been computed in one, see `narrower_format`. Measured.
FEWEST_COMPUTED = 1024
FEWEST_ROWS_OF_PRECISION = 4  # Rows that say with which precision a side computes. By hand.
# Fewer values than these are alike by chance: the ones and zeros of norms, a handful of biases.
# By hand.
FEWEST_RELATED = 16
FEWEST_OF_ROW = 8  # Values of a row of a weight map that say something. By hand.
FEWEST_ADDED = 8  # Elements; among many parts two add up to fewer by chance. By hand.
# Elements; fewer round numbers are often one multiple of others. By hand.
FEWEST_ELEMENTS_FITTED = 4
FEWEST_PARTICIPANTS = 1.1  # Elements that carry the spread; a single one has no order. By hand.
SHORT_ROW = 4  # Rows of so few elements are not unique enough to be placed one by one. By hand.
FEWEST_STEPS_OF_SERIES = 4  # Steps of which a series can be told to part. By hand.
# Steps outside the noise of which a law of growth is told: of ten steps a power spans a decade.
# By hand.
FEWEST_STEPS_OF_LAW = 10
FEWEST_BENDS = 16  # Increments that say how much a series fluctuates. By hand.

# What one explanation does to a tensor

# A difference of low rank: least size of the matrix, rows that say it, times the rank that rows and
# columns are at least, share of rows and of columns that differ, and what may be left of it. By
# hand.
FEWEST_OF_RANK, RANK_ROWS, TIMES_THE_RANK = 16, 128, 2
RANK_SAMPLE = 1 << 20  # Elements of these rows, and of a factor.
SPREAD_OF_RANK, LEFT_OF_RANK = 0.75, 1e-3
# Of a difference, by the product of two factors beside a weight. By hand.
FACTORS_LEFT = 0.05
# How sure a merged adapter is whose factors are not seen: training on few tokens leaves the same.
# By hand.
ADAPTER_UNSEEN = 0.5

EXPLAINED = 0.1  # An explanation has to leave less than this of what it explains. By hand.
# Images go through eight bits: half a level of the smallest deviation in use. Derived.
IMAGE_TOLERANCE = 1e-2
# Share of what the diagnosis may read that is kept for its other questions when padded tokens are
# looked at. By hand.
LEFT_OF_PADDING = 0.5
MOST_IMAGE_CHANNELS = 4  # Channels of an image. Convention.
# Shares of the error: more is left of noise, from the side that has none; less by a filter that
# was applied to the image itself. By hand.
NOISE_LEFT, FILTER_LEFT = 0.9, 0.1
# Share of the elements of a sample that differ, from which no place can hold them: half of a tensor
# is the most, and a sample may hold some more. By hand.
CONFINED = 0.6
# Share of a tensor that a place covers at most: what is said of a larger one says nothing. By hand.
LARGEST_PLACE = 0.5
NEARLY_A_RUN = 0.9  # Share of a range of indices that differ where all of it is told. By hand.
FEWEST_STEPS_OF_SET = 3  # Indices at equal distances that are no chance. By hand.
# Elements that differ at an index, on the average, where many scattered indices are told: as few as
# one at each is chance. By hand.
ELEMENTS_OF_INDEX = 3
SHARPER_PLACE = 0.7  # Share of the plainer place that one of samples and tokens has. By hand.
FULL_BLOCK = 0.9  # Share of an overwritten block that has to differ. By hand.
# Times the largest other value: no rule of a network makes a whole block that large. By hand.
FAR_OFF = 20.0
NO_ROUNDING = 1e-2  # Change of an element that is no rounding. By hand.
# Beside such a value another is one as well that is so many times the largest of a computed row. By
# hand: far more than a factor of positions.
HUGE_BESIDE = 2.0**16
HUGE_VALUE, TINY_VALUE = 1e20, 1e-30  # Beyond these a value is what memory held by chance. By hand.
LARGEST_WHOLE = 2.0**40  # The same of whole numbers. By hand.
EQUAL_LAYERS = 1e-3  # Of a match; two layers of one network are further apart. By hand.
# The error of the first values of a head squared, over their square, from which it is no copy. By
# hand.
OTHER_HEAD_ERROR = 1e-2
LARGEST_NAMED_COUNT = 64  # Largest whole number that a factor is named after. By hand.
# Of a part, relative to itself: no part is so small that it fits anywhere. By hand.
PART_ERROR = 0.5
# Share of rows that a regular order explains; the others may have been mistaken. By hand.
AGREEING_ROWS = 0.9
# Gates and halves are named as blocks even where they are swapped factors too. Convention.
FEW_BLOCKS = 4

# Training

# Relative distance from the rate, less a decay, within which updates are it. By hand.
UPDATE_FOLLOWS_RATE = 1e-3
UPDATES_OF_RATE = 0.3  # Share of the updates that are the rate to within that. By hand.
SIGNS_TOWARDS_ZERO = 0.95  # Changes of sign that have to point at zero, of all. By hand.
# Roundings an update has to be off the rate for its gradient to be known. By hand.
ROUNDINGS_OFF_RATE = 30.0
FEWEST_UPDATES = 32  # Updates that obey a rule. By hand.
# Roundings of running statistics behind an update; share of a difference that may be left of it;
# how close two weights of a batch are that are one. By hand.
RUNNING_ROUNDINGS, RUNNING_EXPLAINED, SAME_MOMENTUM = 8.0, 1e-3, 1e-3
FEWEST_RUNNING = 3  # Running statistics of which a rule is said. By hand.
FEWEST_TRAINED = 8  # Elements whose steps are compared without gradients. By hand.
FEWEST_WARM = 3  # Steps of a warming rate. By hand.
# Copies of earlier values are copies: at most this share of what a step moves is left. By hand.
COPIED_VALUES = 1e-3
# Two updates whose angle has a larger sine were not made by the same batch. By hand.
OTHER_BATCH = 0.3
SAME_AVERAGE_SHARE = 1e-2  # Shares of one average are equal to this, relative. By hand.
# How much larger the squared residual of a form has to be, in units of the best one over the
# number of values, to be given up: six standard deviations of one constant. Derived.
FORM_GIVEN_UP = 40.0
# A rule that leaves more than this of the updates has not been recognised. By hand.
RULE_RECOGNISED = 0.1
RULE_EXPLAINED = 1.5  # Floors within which a rule needs no more forms to be tried. By hand.
# Residual of the plain forms of a family above which its others are not tried. By hand.
RULE_HOPELESS = 0.3
# A rule for which nothing was fitted is as good as a fitted one up to this many times its
# residual. By hand.
AS_GOOD_UNFITTED = 3.0
# How much of the rounding a swapped setting has to add, squared: a fifth in amplitude. Derived.
SWAPPED_MARGIN = 0.05
# Least limit of a clipping that is looked for, of the largest norm or value; golden sections by
# which the limit is known as well as the rounding of stored updates lets it be. By hand.
LEAST_CLIPPED, CLIP_ROUNDS = 1e-4, 36
FEWEST_SATURATED = 3  # Gradients whose largest values are one bound. By hand.
# Norms that are clipped to one limit, which a framework divides by norm + 1e-6; norms of steps and
# ranks that are not; how close a mean of weights is to one. By hand.
CLIPPED_SPREAD, NORMS_VARY, WEIGHTS_MEAN = 2e-5, 1e-3, 2e-5
DECAY_LEFT = 10.0  # Roundings of gradients that a decay in them may leave. By hand.
# Of runs that go on: floors within which a rule explains a side that begins anew, how closely the
# first gradients agree, and how much is known where only the side that begins is. By hand.
BEGUN_FLOORS, GRADIENTS_ALIKE, BEGINS_ALONE = 5.0, 1e-4, 0.75
DECAYED_ALONE = 0.05  # Share of updates that are no multiple of the values, where decay made them.
ROUNDINGS_MOVED = 2.0  # Roundings of a value that an update shows above. By hand.
USUAL_CLOSE = 1e-4  # How close a fitted number is to a round one that it is. By hand.
ONE_SETTING = 0.03  # How close two fitted settings of a cause are that are one. By hand.
SAME_RATE = 3e-4  # Learning rates closer than this are one. By hand.
SMALLEST_LOSS_SCALE = 2.0**8  # Scales of a loss in use are 2^8 and more. Convention.
FEWEST_GRADIENTS = 2  # Smallest number of tensors that make "all of them" a statement. By hand.
# Share of the squared norm of all gradients that may belong to tensors with another factor:
# biases in front of a normalisation have gradients that are nothing but rounding. By hand.
STRAY_GRADIENTS = 1e-6
# Root mean square of a gradient over the largest of all, below which it is rounding residue. By
# hand.
GRADIENT_RESIDUE = 1e-5
# A factor that leaves no more than this of a difference is right, whatever is taken for rounding:
# a backward pass may add up more of it than one operator does. By hand.
GRADIENT_UNDONE = 1e-4
# Standard deviations of the self-noise that a difference has to leave it by. Convention.
SERIES_SIGMAS = 3.0
# Neighbours on either side whose increments say how much a series fluctuates. By hand.
SERIES_WINDOW = 5
# By which chance a difference that stays apart seems to be back in the noise at the end.
# Convention.
CHANCE_OF_RETURN = 0.05
NO_GROWTH = 0.05  # Exponent of a growth below which there is none. By hand.
# Share of the spread of a difference's logarithm that a law of its growth may leave. By hand.
UNEXPLAINED_GROWTH = 0.5
# Losses are sums over many rounded terms: agreeing runs part by this many roundoffs at once. By
# hand.
LOSS_ROUNDINGS = 64.0

# Where a difference begins

# An output whose error is this many times that of its inputs, or what rounding leaves if that is
# more, was not carried there. By hand.
CREATED_GROWTH = 10.0
# Values that differ by a share e lie on two sides of zero in a share e / pi: a gradient through a
# step there differs by 0.8 sqrt(e), half of what is let through. Over CREATED_GROWTH, and doubled.
OVER_A_STEP = 0.16
# From this growth on it is worth computing what the call should have given. By hand.
WORTH_A_LOOK = 3.0
# Without inputs only neighbours can be asked, and parallel branches are no inputs. By hand.
GROWTH_BY_ORDER = 20.0
# A norm takes a large mean away, and what rounding left of it becomes large. By hand.
GROWTH_OF_NORMS = 200.0
USED_SOON = 8  # Calls after an operator within which its results are used. By hand.
UNSEEN_SOON = 3  # As many next ones that agree say that nothing uses the difference. By hand.
GONE = 1e-3  # Share of a difference below which it is gone, and not diluted by a residual. By hand.
# What agrees is closer than the bound of rounding, which a difference reaches as it fades. By
# hand.
CLOSE_TYPICAL, CLOSE_NOISE = 2.0, 0.1
ROWS_OF_PRECISION = 0.6  # The precision of a side is that of most of its rows. By hand.
# Bits of a half format at most, and those of float32 that computed values use. Derived.
HALF_BITS, FULL_BITS = 11, 20

# How sure a finding is

MOST_SURE = 0.98  # Confidence that no finding exceeds. Measured: calibrated with seeded faults.
# Values that a coincidence would have to hit: with fewer, a fit proves little. Measured, likewise.
FEW_VALUES, FEW_EXACT_VALUES = 12.0, 2.0
# Confidence below which a finding is not told, from which an explanation names it as a possibility,
# and from which it is likely. By hand.
LEAST_SURE, POSSIBLE, LIKELY = 0.1, 0.2, 0.5
# Relative error above which nothing is rounding that grew, though nothing created it. Measured: of
# 180 right runs in half precision, 16 bits against 32 and ill-conditioned, at most 0.15.
GROWN_ROUNDING = 0.3
# Elements from which a change of the norm of this share of the error says that they share a factor:
# of rounding alone 8 sigmas. By hand.
FEWEST_OF_FACTOR, SHARED_FACTOR = 64, 0.8
GROWS_BY_SETTING = 1.5  # Growth in a layer that is set otherwise, which is not rounding. By hand.
# What is acquitted for growing little over rounding: its two sides are explained together at most
# this many times worse than each alone, or this share of what rounding leaves. By hand.
CLOSELY_ALIKE, LEFT_BY_CHANCE = 1.5, 0.5

# Names, and pairs of them

# Two names that share their numbers and their last word are likelier partners than two that do
# not, whatever else they share. By hand.
SAME_NUMBERS_BONUS, SAME_END_BONUS = 0.25, 0.25
# What a pair that names alone make needs at least, and by how much it has to be the best. By
# hand.
LEAST_CLOSENESS, CLEARLY_CLOSER = 0.5, 0.02
SLIP = 0.4  # Share of letters that a slip leaves in place. By hand.
BARELY_ALIKE = 0.3  # Likeness of names below which nothing speaks for a pair. By hand.
# A name is recognised without help from the order when it is this alike and nothing else nearly
# so. By hand.
ALIKE, ALIKE_MARGIN = 0.5, 0.1
# Confidence of pairs whose names are unlike, and of those with another number. By hand.
SURE_UNLIKE, SURE_OTHER_NUMBER = 0.5, 0.45
# Confidence of each reason for a pair of calls. No guess is above SUREST: a wrong pair must never
# look certain. By hand.
NAMED, RENAMED, UNIQUE, STEADY, SUREST, DOUBTFUL = 0.98, 0.95, 0.93, 0.9, 0.9, 0.5
# All fits but one thing; little more than kind or place agrees; a renaming leads elsewhere; only
# order or shape speaks for the pair. By hand.
FITTING, LOOSE, STRAYED, VAGUE = 0.85, 0.7, 0.6, 0.4
LIKENESS_WORTH = 0.5  # What full likeness of names adds to `VAGUE`. By hand.
# At most, where the numbers in the names of one side are among the other's, of calls and of
# entries; where they are not, or shapes differ. By hand.
CALLS_AMONG, NAMES_AMONG, APART = 0.9, 0.95, 0.8
SAME_SHAPE, OTHER_SHAPE = 0.6, 0.2  # Of pairs that shape or order alone makes. By hand.
SUREST_GUESS = 0.9  # What order, shape and likeness say is never as sure as an equal name. By hand.
NAMES_ALONE = 0.85  # Confidence of calls that nothing but their names puts together. By hand.
# Confidence where a call has several values and the file says nothing of their order. By hand.
SUPPOSED = 0.9
# Below this confidence the names alone do not prove a pair of a checkpoint, see `pair_dumps`. By
# hand.
PROVED_BY_NAMES = 0.9
# Share of the best pair that its best rival is worth at most, and the confidence then. By hand.
DECIDED, LEANING = (0.25, 0.85), (0.75, 0.7)
# Confidence that a row of a weight map needs which names do not prove. By hand.
LEAST_DRAFTED = 0.5
# Confidence of rows whose names say one place in a stack of layers, and of parts that one tensor
# has packed, whose order no name says. By hand.
SAME_PLACE, PACKED_AT_PLACE = 0.85, 0.7
# What counts beside likeness of names, which is at most 1. By hand.
SAME_SHAPE_WORTH, SAME_FAMILY_WORTH = 1.0, 0.5
# A part in front of at least this share of a side's names is what that side calls the network. By
# hand.
PREFIX_SHARE = 0.8
# A renaming seen in this share of the pairs it could apply to is one. By hand.
RENAMING_SHARE = 0.6
# Of the names that count the lines of a file; one more call shifts all behind it. By hand.
SITES_SHARE = 0.9
# By how much names or values of neighbours in a run have to say that they changed places. By
# hand.
CHANGES_PLACES = 0.15
# How near figures must be to count as the same, against the largest value of the tensor: what two
# orders of summation make of it. By hand.
SAME_FIGURES = 1e-4
# As `SAME_FIGURES`, of short formats: one unit in the last place. Derived.
SAME_SHORT_FIGURES = {"float16": 1e-3, "bfloat16": 8e-3}
# Below this share of related rows, what two sides have in common are tables such as sines, and a
# row that differs is no finding. By hand.
RELATED_ROWS = 0.2
SAME_DIRECTION = 0.999  # Cosine from which a row is a multiple of another. By hand.
# Relative l2 differences of joined ranks. Runs in bfloat16 agree to 0.01, unrelated values differ
# by 1.4; half of the rows of one tensor in the wrong place make 1.0. By hand.
RANKS_AGREE = 0.1
RANKS_CLEARLY = 4.0  # Times closer than the next way of joining. By hand.
# Operators of form between two members of a chain: more than these and it is another place. By
# hand.
MOST_BETWEEN_FUSED = 4

# Budgets: blocks that are read, measured or compared at once

# Elements of which figures are made at once; merging them gives the same bytes in any order.
FIGURES_BLOCK = 1 << 17
# Elements that a device widens to float64 at once, 128 MiB there; whole rows of fingerprints.
DEVICE_BLOCK = 1 << 24
SIGNATURES_BLOCK = 1 << 20  # Elements of which signatures are made at once.
THINNED = 1 << 16  # Elements that say how many carry the spread of a tensor.
SUMMED_BLOCK = 1 << 16  # Elements widened to float64 at once, that stay in the cache. Measured.
READ_BLOCK = 1 << 20  # Elements of a tensor of any size that are read at once.
# Elements, of 4 bytes, of a box of a tensor that another one is held against, and of a run of it
# that is long enough in both. What a box leaves out of rows is read again with the next one.
READ_BOX, READ_RUN = 1 << 24, 1 << 10
# What lies between two ranges is read with them up to so much: one more call costs as much.
# Measured: 5 us.
READ_THROUGH_BYTES = 1 << 15
# A short range of a plain file that is read by itself costs as much as so many bytes: 1 us.
READ_EACH_BYTES = 10 << 10
# Smaller than the blocks of the figures: a dozen arrays of this length are alive at a time.
LOCATE_BLOCK = 1 << 16
LOCATE_RUN = 1 << 20  # Elements read at once for them: every read opens the file again.
RANKS_BLOCK = 1 << 19  # Elements of ranks compared at once.
# A slice of a large pair is a whole branch of the merge tree: 32 blocks, 16 MiB of float32.
SLICE_BLOCKS = 32
# Small pairs travel together until a task is worth its overhead.
BATCH_ELEMENTS, BATCH_PAIRS = 1 << 20, 256
# Longest axis whose profile is kept element by element; a longer one is summed into bins.
LONGEST_PROFILE = 1 << 20
FIRST_VALUES = 1024  # Values looked at before all of them are.
# Tables of more pairs than this are not made, of one shape or of a stretch without a unique call.
TABLE_CELLS = 4_000_000
# Beyond this many different pairs of names a table of them is not worth its memory.
LIKENESS_CELLS = 16_000_000

# Budgets: elements of a sample, or of the largest tensor that is read

# Elements of the largest tensor that is read whole to look for a cause, or for what it is part
# of.
LARGEST_READ = 1 << 22
# Elements of the largest pairs in memory that one thread measures as soon as several. Measured.
LARGEST_QUICK = 1 << 12
# Pairs of up to so many elements a side are read whole; larger ones whose figures show nothing
# out of the ordinary are judged from `SCREEN_SAMPLE` of them, in runs of at most `SCREEN_RUN`.
SCREENED_FROM, SCREEN_SAMPLE, SCREEN_RUN = 1 << 17, 1 << 16, 1 << 12
# Elements of a larger tensor that recognise a cause, at least so many neighbours in a run, and
# those of one block of the pass over all of it that proves it: some copies fit a cache of 8 MiB.
LARGE_SAMPLE, LARGE_RUN, LARGE_BLOCK = 1 << 18, 1 << 10, 1 << 18
# Elements of a damaged block of a larger tensor that tell what it holds, and places of its first
# value at which it is looked for.
LARGEST_BLOCK, MOST_COPIES = 1 << 20, 64
# Sum of squares in float32 from which on what underflows in it does not count. Derived.
SQUARES_TOLD = 1e-12
# Share of what comparing read that the diagnosis may read again; elements that it may read besides,
# and that one question may read, of both sides.
READ_AGAIN, FREE_ELEMENTS, QUESTION_ELEMENTS = 0.25, 1 << 24, 1 << 25
# Elements that are read of both sides for one look at a row, and of larger ones, in so many runs.
LARGEST_LOOK, LOOK_SAMPLE, LOOK_RUNS = 1 << 24, 1 << 18, 256
# Values are read to break ties where a dump records no statistics, up to so much in all.
TIES_BYTES = 1 << 26
# Of a tensor that no statistics describe at most so many values are read, from its beginning.
TIES_SAMPLE = 1 << 16
# Values that tell large tensors from each other, in so many runs.
MARK_SAMPLE, MARK_RUNS = 1 << 12, 16
CONSTANT_BYTES = 1 << 20  # Checksums of constant tensors are known in advance up to this size.
# Larger tensors are looked at in so many elements where all are not needed.
TENSOR_SAMPLE = 1 << 20
BITS_SAMPLE = 1 << 16  # Elements whose bits, or factors, are looked at.
DRAWS_SAMPLE = 1 << 17  # Elements whose distribution is looked at.
# Values of one tensor, and tensors, that say by what rule a side was drawn.
DRAW_VALUES, DRAW_TENSORS = 1 << 14, 24
SORTED_VALUES = 1 << 14  # Values that are sorted to be held against a distribution.
OVERWRITTEN_SAMPLE = 1 << 15  # Elements that are held against later values.
# First values of a tensor that may be tied, and those of its beginning and middle.
TIED_FIRST, TIED_PROBE = 16, 256
FEW_PLACES = 1 << 12  # Places of a sample that are kept for the next trial.
LAYER_SAMPLE = 1 << 18  # Elements of an output that stand for all.
# Calls of more elements of output are first computed again in `LAYER_SAMPLE` of them, whole rows,
# so many neighbours in a run.
THINNED_FROM, ROWS_IN_A_RUN = 1 << 19, 8
# Elements of the part of a tensor that stands for all of it where it is too large to be read
# whole; places of NaN and Inf that are among them.
PART_ELEMENTS, ODD_PLACES = 1 << 19, 16
DROPOUT_SAMPLE = 1 << 20  # As `LAYER_SAMPLE`, whole slices of the first axes.
ACTIVATION_SAMPLE = 1 << 16  # As `LAYER_SAMPLE`, for many functions.
ELEMENTWISE_SAMPLE = 1 << 14  # As `LAYER_SAMPLE`, of sums and products.
# Elements of a value made of earlier ones, and of the first look at every pair of them.
BETWEEN_SAMPLE, BETWEEN_PROBES = 1 << 13, 192
EARLIER_PROBES = 64  # Elements by which earlier values are told from each other.
# Rows, columns and items of a product that are computed again.
PRODUCT_ROWS, PRODUCT_COLUMNS, PRODUCT_ITEMS = 64, 64, 8
LOOKED_UP_IDS = 512  # Ids of an embedding whose table is too large to be read whole.
DENSE_COLUMNS = 512  # Columns of a dense layer whose weight is too large to be read whole.
LONG_SUM = 1024  # Longer sums are costly to round in every format; fewer of them prove as much.
# Items, lines and channels of a convolution that are computed again.
CONVOLUTION_ITEMS, CONVOLUTION_LINES, CONVOLUTION_CHANNELS = 2, 8, 24
FEWEST_LINES = 4  # Lines of an output that have to be seen of an image that is cut off. By hand.
LONG_WINDOW = 1000  # As `LONG_SUM`, of the values below a kernel.
POOLING_PLANES, POOLING_CELLS = 6, 1 << 16  # Planes, and elements of them, that are pooled again.
# Planes, and elements of them, that are resized again.
RESIZING_PLANES, RESIZING_CELLS = 4, 1 << 18
EMBEDDING_IDS = 2048  # Numbers that are looked up again.
# Heads, rows and keys of an attention that are computed again.
ATTENTION_HEADS, ATTENTION_ROWS, ATTENTION_KEYS = 6, 40, 1 << 13
WINDOW_HEADS, WINDOW_QUERIES = 2, 4  # Of them those by which a window is looked for.
# Groups of a normalisation, and their elements together; at least eight groups are taken however
# long they are.
GROUP_ROWS, GROUP_ELEMENTS = 2048, 1 << 20
GROUPS_FIRST = (256, 1 << 14)  # Groups and elements of the first trial of every way.
SPECIAL_GROUPS = 64  # Groups with NaN or without variance, taken beside the sample.
FOLDING_PROBE = 256  # Columns in which most weights are seen not to be multiples of each other.
# Positions, other indices and heads of rotated values.
ROTARY_POSITIONS, ROTARY_REST, ROTARY_HEADS = 2048, 4, 128
ROTARY_COUNTED = 8  # Positions, and pairs, by which the first position is found.
# Steps within which every way is tried, and items; the best of them goes on.
RECURRENT_STEPS, RECURRENT_ITEMS, RECURRENT_MOST_STEPS = 48, 4, 2048
# What is read of a training at most: of a tensor, how many tensors, and of all of them a step.
TRAINED_ELEMENTS, TRAINED_TENSORS, TRAINED_TOGETHER = 100_000, 256, 6_400_000
TRAINED_FITTED = 8_000  # Elements of all tensors together, to fit an optimizer's rule.
TRAINED_PIECES = 16  # Pieces of a tensor that they are read in.
# Least cosine of updates with what is new in the gradients of their own step, for these to have
# made them: of repeated batches hardly anything is new.
GRADIENT_LED = 0.05
RULE_COUNTED = 20_000  # Values that count when forms of a rule are told apart.
# Pieces of a tensor, and values of each, by which a row of a weight map is looked at.
MAP_PIECES, MAP_PIECE = 4, 1024
KEY_VALUES = 64  # Values that tell tensors apart before all are read.
# Elements that searches for relations look at, about 70 ns each; what is left is said.
SEARCHED_ELEMENTS = 1 << 30
RELATION_SAMPLE = 1024  # Elements by which explanations of a tensor are ranked.
SHORT_ROWS = 1 << 16  # Short rows that are looked at for every order of blocks and groups.
ARRANGEMENT_SAMPLE = 512  # Rows by which a regular order is found.
FINGERPRINT_SAMPLE = 64  # Values of a tensor that tell it from others.
SIGNATURE_COLUMNS = 4096  # Elements of a row that enter its signature at most.
# Figures of the signatures of one side, or of all that are kept, 32 MiB; there are fewer of a row
# where rows are many.
SIGNATURE_FIGURES, SIGNATURE_LONGEST, SIGNATURE_LEAST = 1 << 22, 16, 4
EXACT_ROW = 1e-5  # Of their root mean square: signatures of one row, but for rounding. Measured.
MOST_MATCHED_ROWS = 1 << 20  # Rows among which any order, and the place of a part, is looked for.
# Elements of a tensor that is held in memory while it is related to another; of larger ones only
# blocks are.
LARGEST_HELD = 1 << 22
# Relations in two steps: elements from which they are looked for, first steps that are tried, and
# the least correlation of the norms along an axis whose rows have the same places.
FEWEST_OF_FIRST_STEP, MOST_FIRST_STEPS, SAME_PROFILE = 32, 48, 0.8
MOST_PAIRS_TRIED = 64  # Pairs of tensors without a partner or a like that are related all the same.
MOST_MERGED_TRIED = 64  # Factors, and BatchNorms, by which a weight of the target is explained.
SHORTEST_CHOSEN_ROW = 4  # Elements of rows of which any choice is looked for.
FEWEST_EQUAL_ROWS = (
    8  # Different ones among shorter rows, all of which equal one of the other side.
)
# Orders of blocks and groups that are tried of more rows than that, simple ones first.
MOST_STRUCTURED, STRUCTURED_AT_ONCE = 1 << 12, 1 << 9
# Distances computed one by one at most; more rows are searched in sorted order.
SIGNATURE_DISTANCES = 1 << 26
SIGNATURE_WINDOW = 32  # Neighbours in that order that are compared.
# Pieces, and elements of each, by which ways of joining ranks are told apart.
RANKS_SAMPLES, RANKS_SAMPLE = 64, 256

# Budgets: how much is tried

# Calls that are computed again, roots and other rows whose values are searched for a cause, peers
# of a row, and calls without a layer.
MOST_CALLS, MOST_ROOTS, MOST_ROWS, MOST_PEERS, MOST_SEARCHED_BETWEEN = 64, 24, 12, 24, 24
MOST_TRIED_TOLD = 3  # Formulas that missed, of which an explanation tells.
MOST_SUSPECTS = 4  # Rows that stand out a little, where none does clearly. By hand.
# Peers that go with a root to another thread or process; more are made as they are looked at.
MOST_PEERS_SENT = 256
# Differences of one kind that are asked about in vain before the others of it are left out.
ASKED_OF_A_KIND = 2
# Seconds after which the diagnosis asks no more, beside so many times what comparing took: nobody
# stays with a page that does not answer for longer. Convention.
LEAST_SECONDS, SECONDS_AGAIN = 10.0, 0.5
MOST_FINDINGS = 12  # Findings that are told.
# What is harmless explains nothing that comes later, which may then be an origin itself: so often
# is asked.
ORIGIN_PASSES = 3
LAST_AXES = 5  # Last axes that are tried.
# First ways, the layer's own, with every use of the parameters; ways that are fitted with all
# elements.
NORM_OWN_WAYS, NORM_FINALISTS = 2, 3
# Geometries of one dilation that are tried, and the best of them with other borders.
CONVOLUTION_GEOMETRIES, CONVOLUTION_BORDERED = 60, 12
ATTENTION_PEERS = 8  # Attentions whose gradients are asked for a common factor.
TURNED_TRIES = 6  # Layouts of earlier values that may have been rotated.
# Calls before a value that are asked where no container says what belongs together, and values of
# them.
CALLS_BEFORE, MOST_SOURCES = 40, 24
PAIRS_OF_TERMS = 16  # Pairs of earlier values that are added in full.
ATTENTIONS_LOOKED_AT = 2  # Rows that may be what an attention made, where padding is looked for.
CAP_STEPS = 25  # Caps that are tried, and the steps that narrow the best.
OUTPUTS_BEFORE = 4  # Saved outputs on either side that are tried as the input of one.
NORM_STEPS = 3  # Calls that make up a normalisation.
# Parts that a value is split into, and the largest pool, between calls.
MOST_PARTS, MOST_POOL = 4, 4
# Places of an attention that is searched, of one decoded token by token, and of one over another
# axis.
LONGEST_ATTENTION, LONGEST_DECODED, LONGEST_TURNED = 4096, 512, 160
HEAD_SIZES = (4, 256)  # Sizes of heads, from and to. Convention.
# Structures of an attention that get a first look, are fitted in full, and are tried over another
# axis.
STRUCTURES, STRUCTURES_FITTED, STRUCTURES_TURNED = 160, 2, 32
TRIAL_ROWS, HEADS_FITS = 12, 12  # Rows of the first look, and fits that are kept.
FREE_ROWS = 8  # Rows of the look that solves for the shares of the keys.
# Indices of an axis that a sentence names, and that are kept of where an error sits.
MOST_INDICES_TOLD, MOST_INDICES_KEPT = 8, 1 << 12
# Elements of the largest mask of tokens, and of the image of where samples and tokens differ.
LARGEST_MASK = 1 << 22
LAG_TRIED = 8  # Of a lag that is looked for along an axis.
LAG_STRETCH = 256  # Neighbours in which it is looked for first in a larger tensor.
MOST_DAMAGED_BLOCKS = 4  # Blocks that a fault of memory may have.
# Rounds in which the constants of a rule, and of one of its forms, are fitted.
RULE_ROUNDS, CONSTANT_ROUNDS = 12, 8
MOST_MEASURES = 256  # Measures of a series that are compared.
# What is tried to be in front of all names of a side, and parts of that.
MOST_PREFIXES, MOST_PREFIX_PARTS = 6, 12
DEEPEST_RENAMING = 12  # Parts of a name that a renaming is looked for in.
GUESS_ROUNDS = 3  # Rounds of guesses, each helped by those before.
# Candidates of an entry without a partner, and entries that get some: nobody reads more.
NEAR_MISSES, NEAR_MISS_ROWS = 3, 200
TIED_LEAVES = 4  # Entries of one role of a call whose values are looked at.
MOST_IN_A_RUN = 6  # Neighbours that could change places and are looked at.
DECLARED_TRIES = 1000  # Pairs of a declaration that are tried.
MOST_DRILL_DOWNS = 8  # Pairs whose worst elements and places are looked for: a page shows no more.
# The tensors of a large checkpoint are large: only that of the first difference is read twice.
# Any other is located when it is asked for.
DRILL_DOWNS = 1
# Two unrelated networks are told from a few rows of each shape, the small ones first.
PROBED_PER_SHAPE, MOST_PROBED = 2, 32
MOST_DUPLICATES = 8  # Tensors of equal values that a row is told of.
MOST_JOINED = 64  # Parts that a tensor is tried to be joined of.
MOST_VERIFIED = 6  # Explanations that are held against all elements.
MOST_BLOCKS = 1024  # Blocks of rows whose order is looked for.
# Axes of a tensor all orders of which are tried, and flips.
MOST_ORDERED_AXES, MOST_FLIPPED_AXES = 5, 4
# Of the rough and of the fine search for eps; each makes the step a tenth.
NORM_SEARCH_ROUNDS = (3, 7)

# When values are near the end of their format

# Share of the largest finite number of a dtype from which a value overflows with the next few
# additions or one product. By hand; transformers and convolutions that work stay below 0.012 of
# float16's, and far below that of the others (measured).
NEAR_OVERFLOW = 1 / 8
# Calls after which a watch for overflow judges what it saw though it was told of no step: some
# tens of MB. Its loop then runs some hundred times per such a piece. By hand.
CALLS_OF_A_STEP = 20_000

# When a difference is like another one, or like noise

# Two differences are of one kind within so many times of the relative error and of the mean over
# the root mean square of the error, and this share of elements that differ. By hand.
LIKE_ERROR, LIKE_EVENNESS, LIKE_UNEQUAL = 2.0, 1.1, 0.1
# Error over the spread of the values about their mean below which they lie where they belong: no
# other order, layer or draw leaves as little. By hand.
IN_PLACE = 1e-3
# Of the range of the values, and of their norm: sides whose ends and norms are further apart do not
# hold the same in another order. By hand.
SAME_ENDS = 1e-2
# Error over the spread of the values below which no order of a larger tensor is looked for. By
# hand.
IN_ORDER = 0.05
# Relative error of sorted values, of moments, or of sums and squares of elements that differ, which
# are the same in another order. By hand.
SAME_VALUES = 1e-5
MOMENTS_FROM = 1e-2  # Relative error from which equal moments of two sides are news. By hand.
# Largest error over the root mean square, and mean over it, of errors that are spread over the
# tensor: normal noise has 5 and 0.8, noise relative to normal values 20 and 0.64. By hand.
SPREAD_PEAK, SPREAD_MEAN = 64.0, 0.4

# Times: residuals this near are those of one sum in another order. Derived: sums in float64.
SAME_SUM = 1.0 + 1e-6

# Values that ``record(keep="sample")`` keeps of a tensor, at most. By hand.
RECORDED_SAMPLE = 4096

# Order of what carries none: calls of a step whose order is looked for, results of one shape that
# are tried as what a value was made of, elements of each that are read, in so many runs. By hand.
MOST_ORDERED, MOST_LINKED, LINK_SAMPLE, LINK_RUNS = 2000, 400, 64, 8
# Chunks of an axis that are tried as what a value is, elements read for means over axes. By hand.
MOST_CHUNKS, MOST_AVERAGED = 4, 1 << 16
LINK_ROUNDINGS = 32.0  # Unit roundoffs that float32 work leaves of an activation. By hand.
# Error of a row that surely differs, over that of one of which statistics alone are known and agree
# within the tolerance, from which the latter is not what it comes from. By hand.
FAR_BESIDE = 1e3
# Cosine from which two tensors that were paired by a guess belong together after all. By hand.
RELATED_COSINE = 0.9
# Tensors of one side that one of the other may hold behind each other. By hand.
MOST_NEIGHBOURS = 4
# Median correlation, over tensors, from which a set of them follows another as moving averages do:
# networks of other seeds have 0.0 on average. By hand.
FOLLOWS = 0.5
# Most that the square of an average of gradients is of the average of their squares: 52.9 for
# decays of 0.9 and 0.999, less for smaller ones. Derived, and rounded up.
MOMENTS_BOUND = 64.0
# Tensors of a set, and values of each, that tell what it is of another. By hand.
COMPANIONS_READ, COMPANION_VALUES = 32, 4096
