"""Why a pair passes or not."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "of_both": ("{left} / {right}", "{left} / {right}"),
    "identical_nonfinite": (
        "bit-equal, and both sides hold {left_nan_count} NaN and {left_inf_count} Inf",
        "逐位相等，且两侧均含 {left_nan_count} 个 NaN、{left_inf_count} 个 Inf",
    ),
    "pass_dtypes": ("values agree, stored as {left_dtype} and {right_dtype}", "数值一致，但存储类型为 {left_dtype} 与 {right_dtype}"),
    "pass_blind": (
        "passes only because of atol: relative error {rel} as a whole, largest |right| {scale}",
        "仅因 atol 而通过：整体相对误差 {rel}，|right| 最大 {scale}",
    ),
    "rounding": (
        "rounding of {coarser}: relative error {rel}; passes from rtol = atol = {smallest}",
        "{coarser} 的舍入误差：相对误差 {rel}；rtol = atol = {smallest} 时通过",
    ),
    "reduced": ("size and pattern of {detail} rounding: relative error {rel}", "误差的大小与分布符合 {detail} 舍入：相对误差 {rel}"),
    "differs": (
        "relative error {rel}, largest {largest}; {share} of elements within tolerance",
        "相对误差 {rel}，最大误差 {largest}；{share} 的元素在容差内",
    ),
    "unrelated": ("does not correlate with the reference (correlation {likeness})", "与基准不相关（相关系数 {likeness}）"),
    "nan_mismatch": ("{mismatches} not alike on both sides", "两侧的 {mismatches} 不一致"),
    "nan_shared": (
        "{left_nan_count} NaN at the same places on both sides; equal_nan=True accepts them",
        "两侧相同位置有 {left_nan_count} 个 NaN；equal_nan=True 时视为相等",
    ),
    "shape": ("shapes {left_shape} and {right_shape} differ", "形状不同：{left_shape} 与 {right_shape}"),
    "missing_left": ("no partner in the left dump", "左侧没有对应项"),
    "missing_right": ("no partner in the right dump", "右侧没有对应项"),
    "missing_expected": ("missing, as declared", "缺失，已声明为预期"),
    "missing_noted": ("no partner is expected: {detail}", "无需对应项：{detail}"),
    "digest_kinds": (
        "checksums of two kinds cannot be compared ({detail}); dump both sides with one task",
        "两侧校验和的种类不同，无法比较（{detail}）；请用同一任务重新采集",
    ),
    "unreadable": ("{detail}", "{detail}"),
    "unreadable_left": ("left: {detail}", "左侧：{detail}"),
    "unreadable_right": ("right: {detail}", "右侧：{detail}"),
    "interrupted": ("not measured: the comparison was interrupted", "未测量：比较被中断"),
    "undecidable": ("equal statistics cannot prove equal values: order and signs may differ", "统计量相等不能证明数值相等：顺序与符号可能不同"),
    "statistics_differ": ("{detail} is {left_statistic} and {right_statistic}", "{detail} 分别为 {left_statistic} 与 {right_statistic}"),
    "statistics_only_left": ("{detail} on the left side only, by the statistics", "由统计量可知仅左侧存在 {detail}"),
    "statistics_only_right": ("{detail} on the right side only, by the statistics", "由统计量可知仅右侧存在 {detail}"),
    "statistics_counts": (
        "other numbers of NaN or Inf, by the statistics: left {left_value}, right {right_value}",
        "由统计量可知 NaN 或 Inf 的数量不同：左 {left_value}，右 {right_value}",
    ),
    "statistics_opposite": (
        "infinities of opposite sign, by the statistics: left {left_value}, right {right_value}",
        "由统计量可知无穷大的符号相反：左 {left_value}，右 {right_value}",
    ),
    "statistics_both": (
        "{detail} on both sides, by the statistics; whether at the same places was not recorded",
        "由统计量可知两侧均有 {detail}；是否在相同位置未记录",
    ),
    "statistics_all_nan": ("every element is NaN on both sides, by the statistics", "由统计量可知两侧全部元素均为 NaN"),
    "digest_same": ("equal checksums", "校验和相等"),
    "digest_differs": ("other bits, by checksum; how far apart they are was not recorded", "校验和不同；未记录差异大小"),
    "digest_differs_nan": ("NaN on both sides, and other bits, by checksum", "两侧均有 NaN，且校验和不同"),
    "defined_differently": ("{detail}", "{detail}"),
    "nothing_shared": ("the two dumps recorded nothing that could be compared", "两侧没有可以比较的记录"),
    "value_same": ("both are {detail}", "两侧均为 {detail}"),
    "values_close": ("within tolerance: left {left_value}, right {right_value}", "在容差内：左 {left_value}，右 {right_value}"),
    "values_differ": ("left {left_value}, right {right_value}", "左 {left_value}，右 {right_value}"),
    "constants_close": (
        "every element is the same number, by min and max: left {left_value}, right {right_value}",
        "由最小值与最大值可知全部元素相同：左 {left_value}，右 {right_value}",
    ),
    "constants_rounding": (
        "rounding of {coarser}; every element is one number, by min and max: left {left_value}, right {right_value}",
        "{coarser} 的舍入误差；由最小值与最大值可知每侧全部元素为同一数：左 {left_value}，右 {right_value}",
    ),
    "constants_differ": (
        "every element is one number, by min and max: left {left_value}, right {right_value}",
        "由最小值与最大值可知每侧全部元素为同一数：左 {left_value}，右 {right_value}",
    ),
    "no_tensor": ("only one side is a tensor: left {left_value}, right {right_value}", "仅一侧为张量：左 {left_value}，右 {right_value}"),
}
