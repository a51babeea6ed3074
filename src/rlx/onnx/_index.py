# Made by tools/gen_reference.py; do not edit.
"""Which module imports an op of ONNX: (domain, name)."""

INDEX = {
    "ops_control": (
        ("", "If"), ("", "Loop"), ("", "Scan"),
    ),
    "ops_llm": (
        ("com.microsoft", "CDist"), ("com.microsoft", "GroupQueryAttention"), ("com.microsoft", "Inverse"),
        ("com.microsoft", "MultiHeadAttention"), ("com.microsoft", "RotaryEmbedding"),
    ),
    "ops_math": (
        ("", "Abs"), ("", "Acos"), ("", "Acosh"), ("", "Add"), ("", "And"), ("", "ArgMax"), ("", "ArgMin"),
        ("", "Asin"), ("", "Asinh"), ("", "Atan"), ("", "Atanh"), ("", "BitShift"), ("", "BitwiseAnd"),
        ("", "BitwiseNot"), ("", "BitwiseOr"), ("", "BitwiseXor"), ("", "Cast"), ("", "CastLike"), ("", "Ceil"),
        ("", "Celu"), ("", "Clip"), ("", "Cos"), ("", "Cosh"), ("", "CumProd"), ("", "CumSum"), ("", "Det"),
        ("", "Div"), ("", "Dropout"), ("", "Einsum"), ("", "Elu"), ("", "Equal"), ("", "Erf"), ("", "Exp"),
        ("", "Floor"), ("", "Gelu"), ("", "Gemm"), ("", "Greater"), ("", "GreaterOrEqual"), ("", "HardSigmoid"),
        ("", "HardSwish"), ("", "Hardmax"), ("", "Identity"), ("", "IsInf"), ("", "IsNaN"), ("", "LeakyRelu"),
        ("", "Less"), ("", "LessOrEqual"), ("", "Log"), ("", "LogSoftmax"), ("", "MatMul"), ("", "Max"), ("", "Mean"),
        ("", "Min"), ("", "Mish"), ("", "Mod"), ("", "Mul"), ("", "Neg"), ("", "Not"), ("", "Or"), ("", "PRelu"),
        ("", "Pow"), ("", "Reciprocal"), ("", "ReduceL1"), ("", "ReduceL2"), ("", "ReduceLogSum"),
        ("", "ReduceLogSumExp"), ("", "ReduceMax"), ("", "ReduceMean"), ("", "ReduceMin"), ("", "ReduceProd"),
        ("", "ReduceSum"), ("", "ReduceSumSquare"), ("", "Relu"), ("", "Round"), ("", "Selu"), ("", "Shrink"),
        ("", "Sigmoid"), ("", "Sign"), ("", "Sin"), ("", "Sinh"), ("", "Softmax"), ("", "Softplus"), ("", "Softsign"),
        ("", "Sqrt"), ("", "Sub"), ("", "Sum"), ("", "Swish"), ("", "Tan"), ("", "Tanh"), ("", "ThresholdedRelu"),
        ("", "Where"), ("", "Xor"),
    ),
    "ops_ml": (
        ("ai.onnx.ml", "ArrayFeatureExtractor"), ("ai.onnx.ml", "Binarizer"), ("ai.onnx.ml", "CastMap"),
        ("ai.onnx.ml", "CategoryMapper"), ("ai.onnx.ml", "DictVectorizer"), ("ai.onnx.ml", "FeatureVectorizer"),
        ("ai.onnx.ml", "Imputer"), ("ai.onnx.ml", "LabelEncoder"), ("ai.onnx.ml", "LinearClassifier"),
        ("ai.onnx.ml", "LinearRegressor"), ("ai.onnx.ml", "Normalizer"), ("ai.onnx.ml", "OneHotEncoder"),
        ("ai.onnx.ml", "SVMClassifier"), ("ai.onnx.ml", "SVMRegressor"), ("ai.onnx.ml", "Scaler"),
        ("ai.onnx.ml", "TreeEnsemble"), ("ai.onnx.ml", "TreeEnsembleClassifier"),
        ("ai.onnx.ml", "TreeEnsembleRegressor"), ("ai.onnx.ml", "ZipMap"),
    ),
    "ops_ms": (
        ("", "LayerNormalization"), ("", "SimplifiedLayerNormalization"), ("com.microsoft", "Attention"),
        ("com.microsoft", "BiasGelu"), ("com.microsoft", "DequantizeLinear"), ("com.microsoft", "DynamicQuantizeLSTM"),
        ("com.microsoft", "DynamicQuantizeMatMul"), ("com.microsoft", "EmbedLayerNormalization"),
        ("com.microsoft", "FastGelu"), ("com.microsoft", "FusedConv"), ("com.microsoft", "FusedGemm"),
        ("com.microsoft", "FusedMatMul"), ("com.microsoft", "Gelu"), ("com.microsoft", "LayerNormalization"),
        ("com.microsoft", "MatMulIntegerToFloat"), ("com.microsoft", "MatMulNBits"), ("com.microsoft", "QGemm"),
        ("com.microsoft", "QLinearAdd"), ("com.microsoft", "QLinearAveragePool"), ("com.microsoft", "QLinearConcat"),
        ("com.microsoft", "QLinearGlobalAveragePool"), ("com.microsoft", "QLinearLeakyRelu"),
        ("com.microsoft", "QLinearMul"), ("com.microsoft", "QLinearSigmoid"), ("com.microsoft", "QLinearSoftmax"),
        ("com.microsoft", "QuantizeLinear"), ("com.microsoft", "QuickGelu"),
        ("com.microsoft", "SimplifiedLayerNormalization"), ("com.microsoft", "SkipLayerNormalization"),
        ("com.microsoft", "SkipSimplifiedLayerNormalization"),
    ),
    "ops_nn": (
        ("", "Attention"), ("", "AveragePool"), ("", "BatchNormalization"), ("", "Conv"), ("", "ConvInteger"),
        ("", "ConvTranspose"), ("", "GRU"), ("", "GlobalAveragePool"), ("", "GlobalLpPool"), ("", "GlobalMaxPool"),
        ("", "GroupNormalization"), ("", "InstanceNormalization"), ("", "LRN"), ("", "LSTM"), ("", "LpNormalization"),
        ("", "LpPool"), ("", "MaxPool"), ("", "MaxUnpool"), ("", "RMSNormalization"), ("", "RNN"),
    ),
    "ops_quant": (
        ("", "DequantizeLinear"), ("", "DynamicQuantizeLinear"), ("", "MatMulInteger"), ("", "QLinearConv"),
        ("", "QLinearMatMul"), ("", "QuantizeLinear"),
    ),
    "ops_random": (
        ("", "Bernoulli"), ("", "Multinomial"), ("", "RandomNormal"), ("", "RandomNormalLike"), ("", "RandomUniform"),
        ("", "RandomUniformLike"), ("ai.onnx.preview.training", "Adagrad"), ("ai.onnx.preview.training", "Adam"),
        ("ai.onnx.preview.training", "Momentum"),
    ),
    "ops_sequence": (
        ("", "ConcatFromSequence"), ("", "Optional"), ("", "OptionalGetElement"), ("", "OptionalHasElement"),
        ("", "ReverseSequence"), ("", "SequenceAt"), ("", "SequenceConstruct"), ("", "SequenceEmpty"),
        ("", "SequenceErase"), ("", "SequenceInsert"), ("", "SequenceLength"), ("", "SequenceMap"),
        ("", "SplitToSequence"),
    ),
    "ops_signal": (
        ("", "DFT"), ("", "MelWeightMatrix"), ("", "STFT"),
    ),
    "ops_tensor": (
        ("", "BitCast"), ("", "CenterCropPad"), ("", "Compress"), ("", "Concat"), ("", "Constant"),
        ("", "ConstantOfShape"), ("", "DepthToSpace"), ("", "Expand"), ("", "EyeLike"), ("", "Flatten"), ("", "Gather"),
        ("", "GatherElements"), ("", "GatherND"), ("", "NonZero"), ("", "OneHot"), ("", "Pad"), ("", "Range"),
        ("", "Reshape"), ("", "Scatter"), ("", "ScatterElements"), ("", "ScatterND"), ("", "Shape"), ("", "Size"),
        ("", "Slice"), ("", "SpaceToDepth"), ("", "Split"), ("", "Squeeze"), ("", "TensorScatter"), ("", "Tile"),
        ("", "TopK"), ("", "Transpose"), ("", "Trilu"), ("", "Unique"), ("", "Unsqueeze"),
    ),
    "ops_text": (
        ("", "RegexFullMatch"), ("", "StringConcat"), ("", "StringNormalizer"), ("", "StringSplit"),
        ("", "TfIdfVectorizer"), ("com.microsoft", "Tokenizer"),
    ),
    "ops_training": (
        ("ai.onnx.preview.training", "Gradient"),
    ),
    "ops_vision": (
        ("", "AffineGrid"), ("", "Col2Im"), ("", "DeformConv"), ("", "GridSample"), ("", "MaxRoiPool"),
        ("", "NonMaxSuppression"), ("", "Resize"), ("", "RoiAlign"), ("", "Upsample"),
    ),
}
