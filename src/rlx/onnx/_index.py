# Made by tools/gen_reference.py; do not edit.
"""Which module imports an op of ONNX: (domain, name)."""

INDEX = {
    "ops_control": (
        ("", "If"), ("", "Loop"), ("", "Scan"),
    ),
    "ops_llm": (
        ("com.microsoft", "RotaryEmbedding"), ("com.microsoft", "MultiHeadAttention"),
        ("com.microsoft", "GroupQueryAttention"), ("com.microsoft", "CDist"), ("com.microsoft", "Inverse"),
    ),
    "ops_math": (
        ("", "Abs"), ("", "Acos"), ("", "Acosh"), ("", "Asin"), ("", "Asinh"), ("", "Atan"), ("", "Atanh"),
        ("", "Ceil"), ("", "Cos"), ("", "Cosh"), ("", "Erf"), ("", "Exp"), ("", "Floor"), ("", "HardSwish"),
        ("", "IsNaN"), ("", "Log"), ("", "Mish"), ("", "Neg"), ("", "Not"), ("", "Reciprocal"), ("", "Relu"),
        ("", "Round"), ("", "Sigmoid"), ("", "Sign"), ("", "Sin"), ("", "Sinh"), ("", "Softplus"), ("", "Softsign"),
        ("", "Sqrt"), ("", "Tan"), ("", "Tanh"), ("", "BitwiseNot"), ("", "LeakyRelu"), ("", "Elu"), ("", "Celu"),
        ("", "Selu"), ("", "ThresholdedRelu"), ("", "HardSigmoid"), ("", "Swish"), ("", "Gelu"), ("", "Shrink"),
        ("", "IsInf"), ("", "PRelu"), ("", "Clip"), ("", "Cast"), ("", "CastLike"), ("", "Identity"), ("", "Dropout"),
        ("", "Add"), ("", "Sub"), ("", "Mul"), ("", "Div"), ("", "And"), ("", "Or"), ("", "Xor"), ("", "Greater"),
        ("", "GreaterOrEqual"), ("", "Less"), ("", "LessOrEqual"), ("", "BitwiseAnd"), ("", "BitwiseOr"),
        ("", "BitwiseXor"), ("", "Equal"), ("", "Pow"), ("", "Mod"), ("", "BitShift"), ("", "Where"), ("", "Max"),
        ("", "Min"), ("", "Sum"), ("", "Mean"), ("", "ReduceSum"), ("", "ReduceMean"), ("", "ReduceProd"),
        ("", "ReduceMax"), ("", "ReduceMin"), ("", "ReduceL1"), ("", "ReduceL2"), ("", "ReduceLogSum"),
        ("", "ReduceLogSumExp"), ("", "ReduceSumSquare"), ("", "ArgMax"), ("", "ArgMin"), ("", "CumSum"),
        ("", "CumProd"), ("", "Softmax"), ("", "LogSoftmax"), ("", "Hardmax"), ("", "MatMul"), ("", "Gemm"),
        ("", "Einsum"), ("", "Det"),
    ),
    "ops_ml": (
        ("ai.onnx.ml", "TreeEnsembleClassifier"), ("ai.onnx.ml", "TreeEnsembleRegressor"),
        ("ai.onnx.ml", "TreeEnsemble"), ("ai.onnx.ml", "LinearClassifier"), ("ai.onnx.ml", "LinearRegressor"),
        ("ai.onnx.ml", "SVMRegressor"), ("ai.onnx.ml", "SVMClassifier"), ("ai.onnx.ml", "Scaler"),
        ("ai.onnx.ml", "Normalizer"), ("ai.onnx.ml", "Binarizer"), ("ai.onnx.ml", "Imputer"),
        ("ai.onnx.ml", "ArrayFeatureExtractor"), ("ai.onnx.ml", "FeatureVectorizer"), ("ai.onnx.ml", "OneHotEncoder"),
        ("ai.onnx.ml", "LabelEncoder"), ("ai.onnx.ml", "CategoryMapper"), ("ai.onnx.ml", "ZipMap"),
        ("ai.onnx.ml", "DictVectorizer"), ("ai.onnx.ml", "CastMap"),
    ),
    "ops_ms": (
        ("", "LayerNormalization"), ("com.microsoft", "FusedMatMul"), ("com.microsoft", "FusedGemm"),
        ("com.microsoft", "FusedConv"), ("com.microsoft", "BiasGelu"), ("com.microsoft", "Gelu"),
        ("com.microsoft", "FastGelu"), ("com.microsoft", "QuickGelu"), ("com.microsoft", "SkipLayerNormalization"),
        ("com.microsoft", "LayerNormalization"), ("", "SimplifiedLayerNormalization"),
        ("com.microsoft", "SimplifiedLayerNormalization"), ("com.microsoft", "SkipSimplifiedLayerNormalization"),
        ("com.microsoft", "EmbedLayerNormalization"), ("com.microsoft", "Attention"), ("com.microsoft", "QLinearAdd"),
        ("com.microsoft", "QLinearMul"), ("com.microsoft", "QLinearSigmoid"), ("com.microsoft", "QLinearLeakyRelu"),
        ("com.microsoft", "QLinearSoftmax"), ("com.microsoft", "QLinearGlobalAveragePool"),
        ("com.microsoft", "QLinearAveragePool"), ("com.microsoft", "QLinearConcat"), ("com.microsoft", "QGemm"),
        ("com.microsoft", "MatMulIntegerToFloat"), ("com.microsoft", "DynamicQuantizeMatMul"),
        ("com.microsoft", "QuantizeLinear"), ("com.microsoft", "DequantizeLinear"),
        ("com.microsoft", "DynamicQuantizeLSTM"), ("com.microsoft", "MatMulNBits"),
    ),
    "ops_nn": (
        ("", "Conv"), ("", "ConvInteger"), ("", "ConvTranspose"), ("", "MaxPool"), ("", "AveragePool"), ("", "LpPool"),
        ("", "GlobalAveragePool"), ("", "GlobalMaxPool"), ("", "GlobalLpPool"), ("", "MaxUnpool"),
        ("", "BatchNormalization"), ("", "RMSNormalization"), ("", "GroupNormalization"), ("", "InstanceNormalization"),
        ("", "LpNormalization"), ("", "LRN"), ("", "LSTM"), ("", "GRU"), ("", "RNN"), ("", "Attention"),
    ),
    "ops_quant": (
        ("", "QuantizeLinear"), ("", "DequantizeLinear"), ("", "DynamicQuantizeLinear"), ("", "MatMulInteger"),
        ("", "QLinearMatMul"), ("", "QLinearConv"),
    ),
    "ops_random": (
        ("", "RandomUniform"), ("", "RandomUniformLike"), ("", "RandomNormal"), ("", "RandomNormalLike"),
        ("", "Bernoulli"), ("", "Multinomial"), ("ai.onnx.preview.training", "Momentum"),
        ("ai.onnx.preview.training", "Adagrad"), ("ai.onnx.preview.training", "Adam"),
    ),
    "ops_sequence": (
        ("", "SequenceConstruct"), ("", "SequenceEmpty"), ("", "SequenceInsert"), ("", "SequenceErase"),
        ("", "SequenceAt"), ("", "SequenceLength"), ("", "SplitToSequence"), ("", "ConcatFromSequence"),
        ("", "SequenceMap"), ("", "Optional"), ("", "OptionalHasElement"), ("", "OptionalGetElement"),
        ("", "ReverseSequence"),
    ),
    "ops_signal": (
        ("", "DFT"), ("", "STFT"), ("", "MelWeightMatrix"),
    ),
    "ops_tensor": (
        ("", "Constant"), ("", "Shape"), ("", "Size"), ("", "ConstantOfShape"), ("", "Range"), ("", "EyeLike"),
        ("", "Reshape"), ("", "Flatten"), ("", "Squeeze"), ("", "Unsqueeze"), ("", "Transpose"), ("", "Expand"),
        ("", "Concat"), ("", "Split"), ("", "Slice"), ("", "Gather"), ("", "GatherElements"), ("", "GatherND"),
        ("", "ScatterElements"), ("", "Scatter"), ("", "ScatterND"), ("", "OneHot"), ("", "TopK"), ("", "NonZero"),
        ("", "Compress"), ("", "Unique"), ("", "Tile"), ("", "Pad"), ("", "Trilu"), ("", "DepthToSpace"),
        ("", "SpaceToDepth"), ("", "CenterCropPad"), ("", "TensorScatter"), ("", "BitCast"),
    ),
    "ops_text": (
        ("", "StringConcat"), ("", "StringNormalizer"), ("", "StringSplit"), ("", "RegexFullMatch"),
        ("", "TfIdfVectorizer"), ("com.microsoft", "Tokenizer"),
    ),
    "ops_vision": (
        ("", "NonMaxSuppression"), ("", "Resize"), ("", "Upsample"), ("", "GridSample"), ("", "AffineGrid"),
        ("", "RoiAlign"), ("", "Col2Im"), ("", "DeformConv"), ("", "MaxRoiPool"),
    ),
}
