from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DTYPE_UNSPECIFIED: _ClassVar[DType]
    F64: _ClassVar[DType]
    F32: _ClassVar[DType]
    F16: _ClassVar[DType]
    BF16: _ClassVar[DType]
    I64: _ClassVar[DType]
    I32: _ClassVar[DType]
    U8: _ClassVar[DType]
    BOOL: _ClassVar[DType]

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    ENCODER: _ClassVar[Mode]
    CAUSAL: _ClassVar[Mode]
    ENCODER_DECODER: _ClassVar[Mode]
    OP: _ClassVar[Mode]
    PLUMBING: _ClassVar[Mode]
    TOKENIZATION: _ClassVar[Mode]
    WEIGHTS: _ClassVar[Mode]
    CLASSIC_ENCODER: _ClassVar[Mode]
    BLOCK: _ClassVar[Mode]
    GRAPH: _ClassVar[Mode]

class Tier(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIER_UNSPECIFIED: _ClassVar[Tier]
    TIER_OP: _ClassVar[Tier]
    TIER_MODEL: _ClassVar[Tier]
    TIER_LONG: _ClassVar[Tier]
    TIER_TEXT: _ClassVar[Tier]

class Arithmetic(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARITHMETIC_UNSPECIFIED: _ClassVar[Arithmetic]
    ARITHMETIC_F64: _ClassVar[Arithmetic]
    ARITHMETIC_F32: _ClassVar[Arithmetic]
    ARITHMETIC_TF32: _ClassVar[Arithmetic]
    ARITHMETIC_BF16: _ClassVar[Arithmetic]
    ARITHMETIC_F16: _ClassVar[Arithmetic]
    ARITHMETIC_OTHER: _ClassVar[Arithmetic]
    ARITHMETIC_NONE: _ClassVar[Arithmetic]

class Backend(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKEND_UNSPECIFIED: _ClassVar[Backend]
    EAGER: _ClassVar[Backend]
    SDPA: _ClassVar[Backend]
    FLEX: _ClassVar[Backend]
    COMPILED: _ClassVar[Backend]
    FOREIGN: _ClassVar[Backend]
    BACKEND_NONE: _ClassVar[Backend]

class Thinking(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    THINKING_ABSENT: _ClassVar[Thinking]
    THINKING_ON: _ClassVar[Thinking]
    THINKING_OFF: _ClassVar[Thinking]
DTYPE_UNSPECIFIED: DType
F64: DType
F32: DType
F16: DType
BF16: DType
I64: DType
I32: DType
U8: DType
BOOL: DType
MODE_UNSPECIFIED: Mode
ENCODER: Mode
CAUSAL: Mode
ENCODER_DECODER: Mode
OP: Mode
PLUMBING: Mode
TOKENIZATION: Mode
WEIGHTS: Mode
CLASSIC_ENCODER: Mode
BLOCK: Mode
GRAPH: Mode
TIER_UNSPECIFIED: Tier
TIER_OP: Tier
TIER_MODEL: Tier
TIER_LONG: Tier
TIER_TEXT: Tier
ARITHMETIC_UNSPECIFIED: Arithmetic
ARITHMETIC_F64: Arithmetic
ARITHMETIC_F32: Arithmetic
ARITHMETIC_TF32: Arithmetic
ARITHMETIC_BF16: Arithmetic
ARITHMETIC_F16: Arithmetic
ARITHMETIC_OTHER: Arithmetic
ARITHMETIC_NONE: Arithmetic
BACKEND_UNSPECIFIED: Backend
EAGER: Backend
SDPA: Backend
FLEX: Backend
COMPILED: Backend
FOREIGN: Backend
BACKEND_NONE: Backend
THINKING_ABSENT: Thinking
THINKING_ON: Thinking
THINKING_OFF: Thinking

class Recording(_message.Message):
    __slots__ = ("header", "padding", "payload", "provenance", "case", "run", "parameter", "tensor", "tokenization", "weights", "graph", "end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    CASE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    TOKENIZATION_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    header: Header
    padding: bytes
    payload: _containers.RepeatedScalarFieldContainer[bytes]
    provenance: Provenance
    case: Case
    run: Run
    parameter: _containers.RepeatedCompositeFieldContainer[Parameter]
    tensor: _containers.RepeatedCompositeFieldContainer[Tensor]
    tokenization: Tokenization
    weights: Weights
    graph: Graph
    end: End
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., padding: _Optional[bytes] = ..., payload: _Optional[_Iterable[bytes]] = ..., provenance: _Optional[_Union[Provenance, _Mapping]] = ..., case: _Optional[_Union[Case, _Mapping]] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., parameter: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., tensor: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., tokenization: _Optional[_Union[Tokenization, _Mapping]] = ..., weights: _Optional[_Union[Weights, _Mapping]] = ..., graph: _Optional[_Union[Graph, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("magic", "schema_major", "schema_minor")
    MAGIC_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_MAJOR_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_MINOR_FIELD_NUMBER: _ClassVar[int]
    magic: str
    schema_major: int
    schema_minor: int
    def __init__(self, magic: _Optional[str] = ..., schema_major: _Optional[int] = ..., schema_minor: _Optional[int] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("tensors", "payload_bytes", "digest")
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    tensors: int
    payload_bytes: int
    digest: bytes
    def __init__(self, tensors: _Optional[int] = ..., payload_bytes: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("name", "step", "dtype", "shape", "axes", "op", "inputs", "bytes", "sha256", "floor", "probe", "own_angles_floor")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    OWN_ANGLES_FLOOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    step: int
    dtype: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    axes: _containers.RepeatedScalarFieldContainer[str]
    op: str
    inputs: _containers.RepeatedScalarFieldContainer[str]
    bytes: int
    sha256: bytes
    floor: Floor
    probe: float
    own_angles_floor: Floor
    def __init__(self, name: _Optional[str] = ..., step: _Optional[int] = ..., dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., axes: _Optional[_Iterable[str]] = ..., op: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., bytes: _Optional[int] = ..., sha256: _Optional[bytes] = ..., floor: _Optional[_Union[Floor, _Mapping]] = ..., probe: _Optional[float] = ..., own_angles_floor: _Optional[_Union[Floor, _Mapping]] = ...) -> None: ...

class Floor(_message.Message):
    __slots__ = ("rms", "max", "row", "head")
    RMS_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    rms: float
    max: float
    row: float
    head: float
    def __init__(self, rms: _Optional[float] = ..., max: _Optional[float] = ..., row: _Optional[float] = ..., head: _Optional[float] = ...) -> None: ...

class Parameter(_message.Message):
    __slots__ = ("name", "dtype", "shape", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    sha256: bytes
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class Provenance(_message.Message):
    __slots__ = ("producer", "versions", "platform", "kernels", "threads", "seed", "flags")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    producer: str
    versions: _containers.RepeatedCompositeFieldContainer[Pair]
    platform: str
    kernels: str
    threads: int
    seed: int
    flags: _containers.RepeatedCompositeFieldContainer[Pair]
    def __init__(self, producer: _Optional[str] = ..., versions: _Optional[_Iterable[_Union[Pair, _Mapping]]] = ..., platform: _Optional[str] = ..., kernels: _Optional[str] = ..., threads: _Optional[int] = ..., seed: _Optional[int] = ..., flags: _Optional[_Iterable[_Union[Pair, _Mapping]]] = ...) -> None: ...

class Pair(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Case(_message.Message):
    __slots__ = ("name", "tier", "mode", "config", "checkpoint", "steps", "after", "exposes", "description", "max_new_tokens", "smallest_margin", "op", "attributes", "taps", "rows", "generation", "training")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    EXPOSES_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MAX_NEW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SMALLEST_MARGIN_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    TAPS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    name: str
    tier: Tier
    mode: Mode
    config: ModelConfig
    checkpoint: _containers.RepeatedCompositeFieldContainer[Checkpoint]
    steps: _containers.RepeatedScalarFieldContainer[int]
    after: str
    exposes: _containers.RepeatedScalarFieldContainer[str]
    description: str
    max_new_tokens: int
    smallest_margin: float
    op: str
    attributes: _containers.RepeatedCompositeFieldContainer[Attribute]
    taps: _containers.RepeatedScalarFieldContainer[str]
    rows: int
    generation: Generation
    training: Training
    def __init__(self, name: _Optional[str] = ..., tier: _Optional[_Union[Tier, str]] = ..., mode: _Optional[_Union[Mode, str]] = ..., config: _Optional[_Union[ModelConfig, _Mapping]] = ..., checkpoint: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ..., steps: _Optional[_Iterable[int]] = ..., after: _Optional[str] = ..., exposes: _Optional[_Iterable[str]] = ..., description: _Optional[str] = ..., max_new_tokens: _Optional[int] = ..., smallest_margin: _Optional[float] = ..., op: _Optional[str] = ..., attributes: _Optional[_Iterable[_Union[Attribute, _Mapping]]] = ..., taps: _Optional[_Iterable[str]] = ..., rows: _Optional[int] = ..., generation: _Optional[_Union[Generation, _Mapping]] = ..., training: _Optional[_Union[Training, _Mapping]] = ...) -> None: ...

class Training(_message.Message):
    __slots__ = ("padding_idx", "decoder_start_token_id")
    PADDING_IDX_FIELD_NUMBER: _ClassVar[int]
    DECODER_START_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    padding_idx: int
    decoder_start_token_id: int
    def __init__(self, padding_idx: _Optional[int] = ..., decoder_start_token_id: _Optional[int] = ...) -> None: ...

class Generation(_message.Message):
    __slots__ = ("strategy", "repetition_penalty", "temperature", "top_k", "top_p", "min_p", "num_beams", "length_penalty", "num_return_sequences", "eos_token_id", "pad_token_id", "prompt_length")
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    NUM_BEAMS_FIELD_NUMBER: _ClassVar[int]
    LENGTH_PENALTY_FIELD_NUMBER: _ClassVar[int]
    NUM_RETURN_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    PAD_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    strategy: str
    repetition_penalty: float
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    num_beams: int
    length_penalty: float
    num_return_sequences: int
    eos_token_id: _containers.RepeatedScalarFieldContainer[int]
    pad_token_id: int
    prompt_length: int
    def __init__(self, strategy: _Optional[str] = ..., repetition_penalty: _Optional[float] = ..., temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., num_beams: _Optional[int] = ..., length_penalty: _Optional[float] = ..., num_return_sequences: _Optional[int] = ..., eos_token_id: _Optional[_Iterable[int]] = ..., pad_token_id: _Optional[int] = ..., prompt_length: _Optional[int] = ...) -> None: ...

class Attribute(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: float
    def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("role", "name", "sha256")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    role: str
    name: str
    sha256: bytes
    def __init__(self, role: _Optional[str] = ..., name: _Optional[str] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class ModelConfig(_message.Message):
    __slots__ = ("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta", "max_position_embeddings", "hidden_act", "attention_bias", "attention_out_bias", "use_qk_norm", "layer_types", "sliding_window", "tie_word_embeddings", "rotate_encoder_keys", "rope_scaling", "classic_encoder")
    MODEL_TYPE_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_SIZE_FIELD_NUMBER: _ClassVar[int]
    INTERMEDIATE_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_HIDDEN_LAYERS_FIELD_NUMBER: _ClassVar[int]
    NUM_ATTENTION_HEADS_FIELD_NUMBER: _ClassVar[int]
    NUM_KEY_VALUE_HEADS_FIELD_NUMBER: _ClassVar[int]
    HEAD_DIM_FIELD_NUMBER: _ClassVar[int]
    RMS_NORM_EPS_FIELD_NUMBER: _ClassVar[int]
    ROPE_THETA_FIELD_NUMBER: _ClassVar[int]
    MAX_POSITION_EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_ACT_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_BIAS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_OUT_BIAS_FIELD_NUMBER: _ClassVar[int]
    USE_QK_NORM_FIELD_NUMBER: _ClassVar[int]
    LAYER_TYPES_FIELD_NUMBER: _ClassVar[int]
    SLIDING_WINDOW_FIELD_NUMBER: _ClassVar[int]
    TIE_WORD_EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    ROTATE_ENCODER_KEYS_FIELD_NUMBER: _ClassVar[int]
    ROPE_SCALING_FIELD_NUMBER: _ClassVar[int]
    CLASSIC_ENCODER_FIELD_NUMBER: _ClassVar[int]
    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_position_embeddings: int
    hidden_act: str
    attention_bias: bool
    attention_out_bias: bool
    use_qk_norm: bool
    layer_types: _containers.RepeatedScalarFieldContainer[str]
    sliding_window: int
    tie_word_embeddings: bool
    rotate_encoder_keys: bool
    rope_scaling: RopeScaling
    classic_encoder: ClassicEncoder
    def __init__(self, model_type: _Optional[str] = ..., vocab_size: _Optional[int] = ..., hidden_size: _Optional[int] = ..., intermediate_size: _Optional[int] = ..., num_hidden_layers: _Optional[int] = ..., num_attention_heads: _Optional[int] = ..., num_key_value_heads: _Optional[int] = ..., head_dim: _Optional[int] = ..., rms_norm_eps: _Optional[float] = ..., rope_theta: _Optional[float] = ..., max_position_embeddings: _Optional[int] = ..., hidden_act: _Optional[str] = ..., attention_bias: bool = ..., attention_out_bias: bool = ..., use_qk_norm: bool = ..., layer_types: _Optional[_Iterable[str]] = ..., sliding_window: _Optional[int] = ..., tie_word_embeddings: bool = ..., rotate_encoder_keys: bool = ..., rope_scaling: _Optional[_Union[RopeScaling, _Mapping]] = ..., classic_encoder: _Optional[_Union[ClassicEncoder, _Mapping]] = ...) -> None: ...

class ClassicEncoder(_message.Message):
    __slots__ = ("norm_first", "layer_norm_eps", "scale_embeddings", "starts_with_hidden_states")
    NORM_FIRST_FIELD_NUMBER: _ClassVar[int]
    LAYER_NORM_EPS_FIELD_NUMBER: _ClassVar[int]
    SCALE_EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    STARTS_WITH_HIDDEN_STATES_FIELD_NUMBER: _ClassVar[int]
    norm_first: bool
    layer_norm_eps: float
    scale_embeddings: bool
    starts_with_hidden_states: bool
    def __init__(self, norm_first: bool = ..., layer_norm_eps: _Optional[float] = ..., scale_embeddings: bool = ..., starts_with_hidden_states: bool = ...) -> None: ...

class RopeScaling(_message.Message):
    __slots__ = ("rope_type", "factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "truncate", "low_freq_factor", "high_freq_factor")
    ROPE_TYPE_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_MAX_POSITION_EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    BETA_FAST_FIELD_NUMBER: _ClassVar[int]
    BETA_SLOW_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    LOW_FREQ_FACTOR_FIELD_NUMBER: _ClassVar[int]
    HIGH_FREQ_FACTOR_FIELD_NUMBER: _ClassVar[int]
    rope_type: str
    factor: float
    original_max_position_embeddings: int
    attention_factor: float
    beta_fast: float
    beta_slow: float
    truncate: bool
    low_freq_factor: float
    high_freq_factor: float
    def __init__(self, rope_type: _Optional[str] = ..., factor: _Optional[float] = ..., original_max_position_embeddings: _Optional[int] = ..., attention_factor: _Optional[float] = ..., beta_fast: _Optional[float] = ..., beta_slow: _Optional[float] = ..., truncate: bool = ..., low_freq_factor: _Optional[float] = ..., high_freq_factor: _Optional[float] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("arithmetic", "backend", "materialised", "golden_tables", "golden_choices", "origin")
    ARITHMETIC_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    MATERIALISED_FIELD_NUMBER: _ClassVar[int]
    GOLDEN_TABLES_FIELD_NUMBER: _ClassVar[int]
    GOLDEN_CHOICES_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    arithmetic: Arithmetic
    backend: Backend
    materialised: _containers.RepeatedScalarFieldContainer[str]
    golden_tables: bool
    golden_choices: bool
    origin: _containers.RepeatedCompositeFieldContainer[Origin]
    def __init__(self, arithmetic: _Optional[_Union[Arithmetic, str]] = ..., backend: _Optional[_Union[Backend, str]] = ..., materialised: _Optional[_Iterable[str]] = ..., golden_tables: bool = ..., golden_choices: bool = ..., origin: _Optional[_Iterable[_Union[Origin, _Mapping]]] = ...) -> None: ...

class Origin(_message.Message):
    __slots__ = ("tap", "module", "file", "line")
    TAP_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    tap: str
    module: str
    file: str
    line: int
    def __init__(self, tap: _Optional[str] = ..., module: _Optional[str] = ..., file: _Optional[str] = ..., line: _Optional[int] = ...) -> None: ...

class Tokenization(_message.Message):
    __slots__ = ("encoding", "decoding", "batch", "conversation")
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    DECODING_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    encoding: _containers.RepeatedCompositeFieldContainer[Encoding]
    decoding: _containers.RepeatedCompositeFieldContainer[Decoding]
    batch: _containers.RepeatedCompositeFieldContainer[Batch]
    conversation: _containers.RepeatedCompositeFieldContainer[Conversation]
    def __init__(self, encoding: _Optional[_Iterable[_Union[Encoding, _Mapping]]] = ..., decoding: _Optional[_Iterable[_Union[Decoding, _Mapping]]] = ..., batch: _Optional[_Iterable[_Union[Batch, _Mapping]]] = ..., conversation: _Optional[_Iterable[_Union[Conversation, _Mapping]]] = ...) -> None: ...

class Encoding(_message.Message):
    __slots__ = ("name", "text", "split_special_tokens", "segment", "id", "offset")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SPLIT_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    split_special_tokens: bool
    segment: _containers.RepeatedCompositeFieldContainer[Segment]
    id: _containers.RepeatedScalarFieldContainer[int]
    offset: _containers.RepeatedCompositeFieldContainer[Span]
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ..., split_special_tokens: bool = ..., segment: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ..., id: _Optional[_Iterable[int]] = ..., offset: _Optional[_Iterable[_Union[Span, _Mapping]]] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("begin", "end", "added_token", "normalized", "pre_token")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ADDED_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NORMALIZED_FIELD_NUMBER: _ClassVar[int]
    PRE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    added_token: int
    normalized: str
    pre_token: _containers.RepeatedCompositeFieldContainer[PreToken]
    def __init__(self, begin: _Optional[int] = ..., end: _Optional[int] = ..., added_token: _Optional[int] = ..., normalized: _Optional[str] = ..., pre_token: _Optional[_Iterable[_Union[PreToken, _Mapping]]] = ...) -> None: ...

class PreToken(_message.Message):
    __slots__ = ("begin", "end", "begin_byte", "end_byte", "symbols", "merge", "id")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    BEGIN_BYTE_FIELD_NUMBER: _ClassVar[int]
    END_BYTE_FIELD_NUMBER: _ClassVar[int]
    SYMBOLS_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    begin_byte: int
    end_byte: int
    symbols: str
    merge: _containers.RepeatedScalarFieldContainer[int]
    id: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, begin: _Optional[int] = ..., end: _Optional[int] = ..., begin_byte: _Optional[int] = ..., end_byte: _Optional[int] = ..., symbols: _Optional[str] = ..., merge: _Optional[_Iterable[int]] = ..., id: _Optional[_Iterable[int]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("begin", "end")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    def __init__(self, begin: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Decoding(_message.Message):
    __slots__ = ("name", "id", "skip_special_tokens", "piece", "text", "chunk")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SKIP_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: _containers.RepeatedScalarFieldContainer[int]
    skip_special_tokens: bool
    piece: _containers.RepeatedScalarFieldContainer[bytes]
    text: str
    chunk: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., id: _Optional[_Iterable[int]] = ..., skip_special_tokens: bool = ..., piece: _Optional[_Iterable[bytes]] = ..., text: _Optional[str] = ..., chunk: _Optional[_Iterable[str]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("name", "text", "padding_side", "truncation_side", "max_length", "pad_to_multiple_of", "row")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PADDING_SIDE_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_SIDE_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    PAD_TO_MULTIPLE_OF_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: _containers.RepeatedScalarFieldContainer[str]
    padding_side: str
    truncation_side: str
    max_length: int
    pad_to_multiple_of: int
    row: _containers.RepeatedCompositeFieldContainer[BatchRow]
    def __init__(self, name: _Optional[str] = ..., text: _Optional[_Iterable[str]] = ..., padding_side: _Optional[str] = ..., truncation_side: _Optional[str] = ..., max_length: _Optional[int] = ..., pad_to_multiple_of: _Optional[int] = ..., row: _Optional[_Iterable[_Union[BatchRow, _Mapping]]] = ...) -> None: ...

class BatchRow(_message.Message):
    __slots__ = ("input_id", "attention_mask")
    INPUT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_MASK_FIELD_NUMBER: _ClassVar[int]
    input_id: _containers.RepeatedScalarFieldContainer[int]
    attention_mask: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, input_id: _Optional[_Iterable[int]] = ..., attention_mask: _Optional[_Iterable[int]] = ...) -> None: ...

class Conversation(_message.Message):
    __slots__ = ("name", "messages", "tools", "add_generation_prompt", "thinking", "rendered", "id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    ADD_GENERATION_PROMPT_FIELD_NUMBER: _ClassVar[int]
    THINKING_FIELD_NUMBER: _ClassVar[int]
    RENDERED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    messages: str
    tools: str
    add_generation_prompt: bool
    thinking: Thinking
    rendered: str
    id: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., messages: _Optional[str] = ..., tools: _Optional[str] = ..., add_generation_prompt: bool = ..., thinking: _Optional[_Union[Thinking, str]] = ..., rendered: _Optional[str] = ..., id: _Optional[_Iterable[int]] = ...) -> None: ...

class Tokenizer(_message.Message):
    __slots__ = ("header", "provenance", "token", "merge", "added_token", "normalizer", "pre_tokenizer", "unicode", "chat_template", "pad_id", "eos_id", "bos_id", "unk_id")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    ADDED_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NORMALIZER_FIELD_NUMBER: _ClassVar[int]
    PRE_TOKENIZER_FIELD_NUMBER: _ClassVar[int]
    UNICODE_FIELD_NUMBER: _ClassVar[int]
    CHAT_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    PAD_ID_FIELD_NUMBER: _ClassVar[int]
    EOS_ID_FIELD_NUMBER: _ClassVar[int]
    BOS_ID_FIELD_NUMBER: _ClassVar[int]
    UNK_ID_FIELD_NUMBER: _ClassVar[int]
    header: Header
    provenance: Provenance
    token: _containers.RepeatedCompositeFieldContainer[TokenEntry]
    merge: _containers.RepeatedCompositeFieldContainer[MergeRule]
    added_token: _containers.RepeatedCompositeFieldContainer[AddedToken]
    normalizer: str
    pre_tokenizer: str
    unicode: UnicodeTables
    chat_template: str
    pad_id: int
    eos_id: int
    bos_id: int
    unk_id: int
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., provenance: _Optional[_Union[Provenance, _Mapping]] = ..., token: _Optional[_Iterable[_Union[TokenEntry, _Mapping]]] = ..., merge: _Optional[_Iterable[_Union[MergeRule, _Mapping]]] = ..., added_token: _Optional[_Iterable[_Union[AddedToken, _Mapping]]] = ..., normalizer: _Optional[str] = ..., pre_tokenizer: _Optional[str] = ..., unicode: _Optional[_Union[UnicodeTables, _Mapping]] = ..., chat_template: _Optional[str] = ..., pad_id: _Optional[int] = ..., eos_id: _Optional[int] = ..., bos_id: _Optional[int] = ..., unk_id: _Optional[int] = ...) -> None: ...

class TokenEntry(_message.Message):
    __slots__ = ("id", "bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    id: int
    bytes: bytes
    def __init__(self, id: _Optional[int] = ..., bytes: _Optional[bytes] = ...) -> None: ...

class MergeRule(_message.Message):
    __slots__ = ("left", "right", "result")
    LEFT_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    left: int
    right: int
    result: int
    def __init__(self, left: _Optional[int] = ..., right: _Optional[int] = ..., result: _Optional[int] = ...) -> None: ...

class AddedToken(_message.Message):
    __slots__ = ("id", "content", "special", "lstrip", "rstrip", "single_word", "normalized")
    ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_FIELD_NUMBER: _ClassVar[int]
    LSTRIP_FIELD_NUMBER: _ClassVar[int]
    RSTRIP_FIELD_NUMBER: _ClassVar[int]
    SINGLE_WORD_FIELD_NUMBER: _ClassVar[int]
    NORMALIZED_FIELD_NUMBER: _ClassVar[int]
    id: int
    content: str
    special: bool
    lstrip: bool
    rstrip: bool
    single_word: bool
    normalized: bool
    def __init__(self, id: _Optional[int] = ..., content: _Optional[str] = ..., special: bool = ..., lstrip: bool = ..., rstrip: bool = ..., single_word: bool = ..., normalized: bool = ...) -> None: ...

class UnicodeTables(_message.Message):
    __slots__ = ("letter", "number", "space", "decomposition", "combining_class", "composition", "word", "case_variant")
    LETTER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    DECOMPOSITION_FIELD_NUMBER: _ClassVar[int]
    COMBINING_CLASS_FIELD_NUMBER: _ClassVar[int]
    COMPOSITION_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    CASE_VARIANT_FIELD_NUMBER: _ClassVar[int]
    letter: _containers.RepeatedCompositeFieldContainer[Span]
    number: _containers.RepeatedCompositeFieldContainer[Span]
    space: _containers.RepeatedCompositeFieldContainer[Span]
    decomposition: _containers.RepeatedCompositeFieldContainer[Decomposition]
    combining_class: _containers.RepeatedCompositeFieldContainer[CombiningClass]
    composition: _containers.RepeatedCompositeFieldContainer[Composition]
    word: _containers.RepeatedCompositeFieldContainer[Span]
    case_variant: _containers.RepeatedCompositeFieldContainer[CaseVariant]
    def __init__(self, letter: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., number: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., space: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., decomposition: _Optional[_Iterable[_Union[Decomposition, _Mapping]]] = ..., combining_class: _Optional[_Iterable[_Union[CombiningClass, _Mapping]]] = ..., composition: _Optional[_Iterable[_Union[Composition, _Mapping]]] = ..., word: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., case_variant: _Optional[_Iterable[_Union[CaseVariant, _Mapping]]] = ...) -> None: ...

class CaseVariant(_message.Message):
    __slots__ = ("letter", "also")
    LETTER_FIELD_NUMBER: _ClassVar[int]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    letter: int
    also: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, letter: _Optional[int] = ..., also: _Optional[_Iterable[int]] = ...) -> None: ...

class Decomposition(_message.Message):
    __slots__ = ("code_point", "to")
    CODE_POINT_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    code_point: int
    to: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, code_point: _Optional[int] = ..., to: _Optional[_Iterable[int]] = ...) -> None: ...

class CombiningClass(_message.Message):
    __slots__ = ("range", "value")
    RANGE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    range: Span
    value: int
    def __init__(self, range: _Optional[_Union[Span, _Mapping]] = ..., value: _Optional[int] = ...) -> None: ...

class Composition(_message.Message):
    __slots__ = ("first", "second", "to")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    first: int
    second: int
    to: int
    def __init__(self, first: _Optional[int] = ..., second: _Optional[int] = ..., to: _Optional[int] = ...) -> None: ...

class Weights(_message.Message):
    __slots__ = ("part", "parts", "place", "file")
    PART_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    part: int
    parts: int
    place: _containers.RepeatedCompositeFieldContainer[WeightPlace]
    file: _containers.RepeatedCompositeFieldContainer[SourceFile]
    def __init__(self, part: _Optional[int] = ..., parts: _Optional[int] = ..., place: _Optional[_Iterable[_Union[WeightPlace, _Mapping]]] = ..., file: _Optional[_Iterable[_Union[SourceFile, _Mapping]]] = ...) -> None: ...

class WeightPlace(_message.Message):
    __slots__ = ("name", "part", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    part: int
    sha256: bytes
    def __init__(self, name: _Optional[str] = ..., part: _Optional[int] = ..., sha256: _Optional[bytes] = ...) -> None: ...

class SourceFile(_message.Message):
    __slots__ = ("name", "content", "header")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    name: str
    content: bytes
    header: bytes
    def __init__(self, name: _Optional[str] = ..., content: _Optional[bytes] = ..., header: _Optional[bytes] = ...) -> None: ...

class Graph(_message.Message):
    __slots__ = ("architecture", "config", "input", "parameter", "constant", "op", "dtype", "module", "line", "block", "call", "tap")
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    CONSTANT_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    TAP_FIELD_NUMBER: _ClassVar[int]
    architecture: str
    config: str
    input: _containers.RepeatedCompositeFieldContainer[GraphLeaf]
    parameter: _containers.RepeatedCompositeFieldContainer[GraphLeaf]
    constant: _containers.RepeatedCompositeFieldContainer[GraphLeaf]
    op: _containers.RepeatedScalarFieldContainer[str]
    dtype: _containers.RepeatedScalarFieldContainer[str]
    module: _containers.RepeatedScalarFieldContainer[str]
    line: _containers.RepeatedCompositeFieldContainer[SourceLine]
    block: _containers.RepeatedCompositeFieldContainer[GraphBlock]
    call: _containers.RepeatedCompositeFieldContainer[GraphCall]
    tap: _containers.RepeatedCompositeFieldContainer[GraphTap]
    def __init__(self, architecture: _Optional[str] = ..., config: _Optional[str] = ..., input: _Optional[_Iterable[_Union[GraphLeaf, _Mapping]]] = ..., parameter: _Optional[_Iterable[_Union[GraphLeaf, _Mapping]]] = ..., constant: _Optional[_Iterable[_Union[GraphLeaf, _Mapping]]] = ..., op: _Optional[_Iterable[str]] = ..., dtype: _Optional[_Iterable[str]] = ..., module: _Optional[_Iterable[str]] = ..., line: _Optional[_Iterable[_Union[SourceLine, _Mapping]]] = ..., block: _Optional[_Iterable[_Union[GraphBlock, _Mapping]]] = ..., call: _Optional[_Iterable[_Union[GraphCall, _Mapping]]] = ..., tap: _Optional[_Iterable[_Union[GraphTap, _Mapping]]] = ...) -> None: ...

class GraphLeaf(_message.Message):
    __slots__ = ("name", "dtype", "shape", "data", "piece")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    piece: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ..., piece: _Optional[_Iterable[str]] = ...) -> None: ...

class SourceLine(_message.Message):
    __slots__ = ("file", "number", "function")
    FILE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    file: str
    number: int
    function: str
    def __init__(self, file: _Optional[str] = ..., number: _Optional[int] = ..., function: _Optional[str] = ...) -> None: ...

class GraphBlock(_message.Message):
    __slots__ = ("inputs", "node", "output")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    inputs: int
    node: _containers.RepeatedCompositeFieldContainer[GraphNode]
    output: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, inputs: _Optional[int] = ..., node: _Optional[_Iterable[_Union[GraphNode, _Mapping]]] = ..., output: _Optional[_Iterable[int]] = ...) -> None: ...

class GraphNode(_message.Message):
    __slots__ = ("op", "operand", "named", "dtype", "shape", "module", "line")
    OP_FIELD_NUMBER: _ClassVar[int]
    OPERAND_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    op: int
    operand: _containers.RepeatedCompositeFieldContainer[Operand]
    named: _containers.RepeatedCompositeFieldContainer[NamedOperand]
    dtype: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    module: int
    line: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, op: _Optional[int] = ..., operand: _Optional[_Iterable[_Union[Operand, _Mapping]]] = ..., named: _Optional[_Iterable[_Union[NamedOperand, _Mapping]]] = ..., dtype: _Optional[int] = ..., shape: _Optional[_Iterable[int]] = ..., module: _Optional[int] = ..., line: _Optional[_Iterable[int]] = ...) -> None: ...

class Operand(_message.Message):
    __slots__ = ("value", "integer", "number", "flag", "text", "list", "none")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    NONE_FIELD_NUMBER: _ClassVar[int]
    value: int
    integer: int
    number: float
    flag: bool
    text: str
    list: Operands
    none: bool
    def __init__(self, value: _Optional[int] = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., flag: bool = ..., text: _Optional[str] = ..., list: _Optional[_Union[Operands, _Mapping]] = ..., none: bool = ...) -> None: ...

class Operands(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: _containers.RepeatedCompositeFieldContainer[Operand]
    def __init__(self, item: _Optional[_Iterable[_Union[Operand, _Mapping]]] = ...) -> None: ...

class NamedOperand(_message.Message):
    __slots__ = ("name", "operand")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPERAND_FIELD_NUMBER: _ClassVar[int]
    name: str
    operand: Operand
    def __init__(self, name: _Optional[str] = ..., operand: _Optional[_Union[Operand, _Mapping]] = ...) -> None: ...

class GraphCall(_message.Message):
    __slots__ = ("block", "argument", "layer")
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    block: int
    argument: _containers.RepeatedScalarFieldContainer[int]
    layer: str
    def __init__(self, block: _Optional[int] = ..., argument: _Optional[_Iterable[int]] = ..., layer: _Optional[str] = ...) -> None: ...

class GraphTap(_message.Message):
    __slots__ = ("name", "step", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    step: int
    value: int
    def __init__(self, name: _Optional[str] = ..., step: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...

class ModelTable(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, model: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "config", "parameters", "dtype", "twin")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    TWIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    config: ModelConfig
    parameters: int
    dtype: DType
    twin: str
    def __init__(self, name: _Optional[str] = ..., config: _Optional[_Union[ModelConfig, _Mapping]] = ..., parameters: _Optional[int] = ..., dtype: _Optional[_Union[DType, str]] = ..., twin: _Optional[str] = ...) -> None: ...

class TapTable(_message.Message):
    __slots__ = ("tap",)
    TAP_FIELD_NUMBER: _ClassVar[int]
    tap: _containers.RepeatedCompositeFieldContainer[Tap]
    def __init__(self, tap: _Optional[_Iterable[_Union[Tap, _Mapping]]] = ...) -> None: ...

class Tap(_message.Message):
    __slots__ = ("pattern", "op", "inputs", "axes", "hf", "parameters")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    HF_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    op: str
    inputs: _containers.RepeatedScalarFieldContainer[str]
    axes: _containers.RepeatedScalarFieldContainer[str]
    hf: str
    parameters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, pattern: _Optional[str] = ..., op: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., axes: _Optional[_Iterable[str]] = ..., hf: _Optional[str] = ..., parameters: _Optional[_Iterable[str]] = ...) -> None: ...

class NetworkTable(_message.Message):
    __slots__ = ("block",)
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    block: _containers.RepeatedCompositeFieldContainer[Block]
    def __init__(self, block: _Optional[_Iterable[_Union[Block, _Mapping]]] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("says", "prefix", "axes", "row")
    SAYS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    says: _containers.RepeatedScalarFieldContainer[str]
    prefix: str
    axes: _containers.RepeatedScalarFieldContainer[str]
    row: _containers.RepeatedCompositeFieldContainer[Row]
    def __init__(self, says: _Optional[_Iterable[str]] = ..., prefix: _Optional[str] = ..., axes: _Optional[_Iterable[str]] = ..., row: _Optional[_Iterable[_Union[Row, _Mapping]]] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("name", "op", "inputs", "axes", "parameters", "hf", "module", "output", "argument", "buffer", "inside", "encoder_half")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    HF_FIELD_NUMBER: _ClassVar[int]
    MODULE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    ENCODER_HALF_FIELD_NUMBER: _ClassVar[int]
    name: str
    op: str
    inputs: _containers.RepeatedScalarFieldContainer[str]
    axes: _containers.RepeatedScalarFieldContainer[str]
    parameters: _containers.RepeatedScalarFieldContainer[str]
    hf: str
    module: str
    output: int
    argument: int
    buffer: str
    inside: str
    encoder_half: bool
    def __init__(self, name: _Optional[str] = ..., op: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., axes: _Optional[_Iterable[str]] = ..., parameters: _Optional[_Iterable[str]] = ..., hf: _Optional[str] = ..., module: _Optional[str] = ..., output: _Optional[int] = ..., argument: _Optional[int] = ..., buffer: _Optional[str] = ..., inside: _Optional[str] = ..., encoder_half: bool = ...) -> None: ...

class ConformanceRequest(_message.Message):
    __slots__ = ("id", "recording", "prior", "tokenizer")
    ID_FIELD_NUMBER: _ClassVar[int]
    RECORDING_FIELD_NUMBER: _ClassVar[int]
    PRIOR_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FIELD_NUMBER: _ClassVar[int]
    id: int
    recording: bytes
    prior: bytes
    tokenizer: bytes
    def __init__(self, id: _Optional[int] = ..., recording: _Optional[bytes] = ..., prior: _Optional[bytes] = ..., tokenizer: _Optional[bytes] = ...) -> None: ...

class ConformanceAnswer(_message.Message):
    __slots__ = ("id", "recording", "unsupported", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    RECORDING_FIELD_NUMBER: _ClassVar[int]
    UNSUPPORTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    recording: bytes
    unsupported: str
    error: str
    def __init__(self, id: _Optional[int] = ..., recording: _Optional[bytes] = ..., unsupported: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class BugTable(_message.Message):
    __slots__ = ("bug",)
    BUG_FIELD_NUMBER: _ClassVar[int]
    bug: _containers.RepeatedCompositeFieldContainer[Bug]
    def __init__(self, bug: _Optional[_Iterable[_Union[Bug, _Mapping]]] = ...) -> None: ...

class Bug(_message.Message):
    __slots__ = ("id", "wrong", "right", "visible_when", "reported")
    ID_FIELD_NUMBER: _ClassVar[int]
    WRONG_FIELD_NUMBER: _ClassVar[int]
    RIGHT_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_WHEN_FIELD_NUMBER: _ClassVar[int]
    REPORTED_FIELD_NUMBER: _ClassVar[int]
    id: str
    wrong: str
    right: str
    visible_when: str
    reported: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., wrong: _Optional[str] = ..., right: _Optional[str] = ..., visible_when: _Optional[str] = ..., reported: _Optional[_Iterable[str]] = ...) -> None: ...

class Tolerances(_message.Message):
    __slots__ = ("headroom",)
    HEADROOM_FIELD_NUMBER: _ClassVar[int]
    headroom: _containers.RepeatedCompositeFieldContainer[Headroom]
    def __init__(self, headroom: _Optional[_Iterable[_Union[Headroom, _Mapping]]] = ...) -> None: ...

class Headroom(_message.Message):
    __slots__ = ("kind", "op", "rms", "max", "row", "head", "measured", "honest", "smallest_mutant")
    KIND_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    RMS_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    HONEST_FIELD_NUMBER: _ClassVar[int]
    SMALLEST_MUTANT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    op: str
    rms: float
    max: float
    row: float
    head: float
    measured: str
    honest: Floor
    smallest_mutant: float
    def __init__(self, kind: _Optional[str] = ..., op: _Optional[str] = ..., rms: _Optional[float] = ..., max: _Optional[float] = ..., row: _Optional[float] = ..., head: _Optional[float] = ..., measured: _Optional[str] = ..., honest: _Optional[_Union[Floor, _Mapping]] = ..., smallest_mutant: _Optional[float] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: _containers.RepeatedCompositeFieldContainer[Entry]
    def __init__(self, entry: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("path", "bytes", "sha256", "digest")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    path: str
    bytes: int
    sha256: str
    digest: str
    def __init__(self, path: _Optional[str] = ..., bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...
