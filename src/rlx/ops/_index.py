# Made by tools/gen_reference.py; do not edit.
"""Which family holds an op."""

INDEX = {
    "attention": (
        "attention", "fused_attention", "rotary_embedding", "rope",
    ),
    "binary": (
        "add", "sub", "mul", "div", "floor_div", "mod", "fmod", "pow", "max", "min", "atan2", "bit_and", "bit_or",
        "bit_xor", "shl", "shr", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor",
        "where", "make_complex", "fma",
    ),
    "cache": (
        "cache_append",
    ),
    "control": (
        "cond", "loop", "scan",
    ),
    "conv": (
        "conv", "conv_nhwc", "conv_alone", "conv_transpose", "conv_transpose_alone", "conv_transpose_nhwc",
    ),
    "cumulative": (
        "cumsum", "cumprod", "cummax", "cummin",
    ),
    "dynamic": (
        "nonzero", "nonzero_bounded", "compress", "compress_bounded", "unique", "unique_bounded",
    ),
    "fft": (
        "fourier", "fft", "ifft", "rfft", "irfft", "view_as_real", "view_as_complex", "stft", "stft_planned",
    ),
    "fused": (
        "region",
    ),
    "index": (
        "gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "one_hot", "search_sorted",
    ),
    "int8": (
        "int8_matmul", "int8_conv", "int8_conv_nhwc",
    ),
    "linalg": (
        "det", "inverse",
    ),
    "loss": (
        "nll_loss", "softmax_cross_entropy",
    ),
    "matmul": (
        "matmul", "fused_matmul", "gemm",
    ),
    "movement": (
        "pad", "tile", "repeat", "flip", "roll", "trilu", "eye", "iota", "depth_to_space", "space_to_depth",
    ),
    "nbits": (
        "matmul_nbits", "fused_matmul_nbits",
    ),
    "nms": (
        "non_max_suppression", "non_max_suppression_bounded",
    ),
    "norm": (
        "layer_norm", "rms_norm", "add_norm", "group_norm", "instance_norm", "batch_norm", "lrn", "moments",
        "mean_variance_norm", "lp_norm",
    ),
    "order": (
        "argmax", "argmin", "sort", "argsort", "topk",
    ),
    "pool": (
        "max_pool", "avg_pool", "lp_pool", "max_pool_indices", "max_unpool",
    ),
    "quant": (
        "quantize_linear", "dequantize_linear", "dynamic_quantize_linear", "matmul_integer", "conv_integer",
        "qlinear_matmul", "qlinear_conv", "lookup",
    ),
    "random": (
        "random_uniform", "random_normal", "randint", "bernoulli", "dropout", "multinomial", "sample",
    ),
    "reduce": (
        "reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min", "reduce_l1", "reduce_l2",
        "reduce_sum_square", "reduce_log_sum", "reduce_any", "reduce_all",
    ),
    "resize": (
        "resample", "resize",
    ),
    "rnn": (
        "lstm", "gru", "rnn", "dynamic_quantize_lstm",
    ),
    "sample": (
        "grid_sample", "roi_align", "affine_grid", "col2im",
    ),
    "softmax": (
        "softmax", "log_softmax", "reduce_log_sum_exp",
    ),
    "trees": (
        "tree_ensemble",
    ),
    "unary": (
        "neg", "sign", "floor", "ceil", "round", "trunc", "sqrt", "rsqrt", "recip", "square", "exp", "exp2", "expm1",
        "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
        "acosh", "atanh", "erf", "erfc", "sigmoid", "log_sigmoid", "softplus", "softsign", "gelu", "gelu_tanh", "silu",
        "mish", "relu", "hard_swish", "bit_not", "logical_not", "leaky_relu", "elu", "celu", "selu", "thresholded_relu",
        "hard_sigmoid", "swish", "shrink", "clip", "isnan", "isfinite", "isinf", "abs", "real", "imag", "conj", "cast",
    ),
    "view": (
        "reshape", "hold", "transpose", "expand", "slice", "concat",
    ),
}
