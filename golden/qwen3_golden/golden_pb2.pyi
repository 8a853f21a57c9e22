from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

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

class Tier(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIER_UNSPECIFIED: _ClassVar[Tier]
    TIER_OP: _ClassVar[Tier]
    TIER_MODEL: _ClassVar[Tier]
    TIER_LONG: _ClassVar[Tier]

class Arithmetic(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARITHMETIC_UNSPECIFIED: _ClassVar[Arithmetic]
    ARITHMETIC_F64: _ClassVar[Arithmetic]
    ARITHMETIC_F32: _ClassVar[Arithmetic]
    ARITHMETIC_TF32: _ClassVar[Arithmetic]
    ARITHMETIC_BF16: _ClassVar[Arithmetic]
    ARITHMETIC_F16: _ClassVar[Arithmetic]
    ARITHMETIC_OTHER: _ClassVar[Arithmetic]

class Backend(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BACKEND_UNSPECIFIED: _ClassVar[Backend]
    EAGER: _ClassVar[Backend]
    SDPA: _ClassVar[Backend]
    FLEX: _ClassVar[Backend]
    COMPILED: _ClassVar[Backend]
    FOREIGN: _ClassVar[Backend]
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
TIER_UNSPECIFIED: Tier
TIER_OP: Tier
TIER_MODEL: Tier
TIER_LONG: Tier
ARITHMETIC_UNSPECIFIED: Arithmetic
ARITHMETIC_F64: Arithmetic
ARITHMETIC_F32: Arithmetic
ARITHMETIC_TF32: Arithmetic
ARITHMETIC_BF16: Arithmetic
ARITHMETIC_F16: Arithmetic
ARITHMETIC_OTHER: Arithmetic
BACKEND_UNSPECIFIED: Backend
EAGER: Backend
SDPA: Backend
FLEX: Backend
COMPILED: Backend
FOREIGN: Backend

class Recording(_message.Message):
    __slots__ = ("header", "padding", "payload", "provenance", "case", "run", "parameter", "tensor", "end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    CASE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    header: Header
    padding: bytes
    payload: _containers.RepeatedScalarFieldContainer[bytes]
    provenance: Provenance
    case: Case
    run: Run
    parameter: _containers.RepeatedCompositeFieldContainer[Parameter]
    tensor: _containers.RepeatedCompositeFieldContainer[Tensor]
    end: End
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., padding: _Optional[bytes] = ..., payload: _Optional[_Iterable[bytes]] = ..., provenance: _Optional[_Union[Provenance, _Mapping]] = ..., case: _Optional[_Union[Case, _Mapping]] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., parameter: _Optional[_Iterable[_Union[Parameter, _Mapping]]] = ..., tensor: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("name", "step", "dtype", "shape", "axes", "op", "inputs", "bytes", "sha256", "floor")
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
    def __init__(self, name: _Optional[str] = ..., step: _Optional[int] = ..., dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., axes: _Optional[_Iterable[str]] = ..., op: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., bytes: _Optional[int] = ..., sha256: _Optional[bytes] = ..., floor: _Optional[_Union[Floor, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("name", "tier", "mode", "config", "checkpoint", "steps", "after", "exposes", "description", "max_new_tokens", "smallest_margin", "op", "attributes", "taps", "rows")
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
    def __init__(self, name: _Optional[str] = ..., tier: _Optional[_Union[Tier, str]] = ..., mode: _Optional[_Union[Mode, str]] = ..., config: _Optional[_Union[ModelConfig, _Mapping]] = ..., checkpoint: _Optional[_Iterable[_Union[Checkpoint, _Mapping]]] = ..., steps: _Optional[_Iterable[int]] = ..., after: _Optional[str] = ..., exposes: _Optional[_Iterable[str]] = ..., description: _Optional[str] = ..., max_new_tokens: _Optional[int] = ..., smallest_margin: _Optional[float] = ..., op: _Optional[str] = ..., attributes: _Optional[_Iterable[_Union[Attribute, _Mapping]]] = ..., taps: _Optional[_Iterable[str]] = ..., rows: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta", "max_position_embeddings", "hidden_act", "attention_bias", "attention_out_bias", "use_qk_norm", "layer_types", "sliding_window", "tie_word_embeddings", "rotate_encoder_keys")
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
    def __init__(self, model_type: _Optional[str] = ..., vocab_size: _Optional[int] = ..., hidden_size: _Optional[int] = ..., intermediate_size: _Optional[int] = ..., num_hidden_layers: _Optional[int] = ..., num_attention_heads: _Optional[int] = ..., num_key_value_heads: _Optional[int] = ..., head_dim: _Optional[int] = ..., rms_norm_eps: _Optional[float] = ..., rope_theta: _Optional[float] = ..., max_position_embeddings: _Optional[int] = ..., hidden_act: _Optional[str] = ..., attention_bias: _Optional[bool] = ..., attention_out_bias: _Optional[bool] = ..., use_qk_norm: _Optional[bool] = ..., layer_types: _Optional[_Iterable[str]] = ..., sliding_window: _Optional[int] = ..., tie_word_embeddings: _Optional[bool] = ..., rotate_encoder_keys: _Optional[bool] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("arithmetic", "backend", "materialised")
    ARITHMETIC_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    MATERIALISED_FIELD_NUMBER: _ClassVar[int]
    arithmetic: Arithmetic
    backend: Backend
    materialised: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, arithmetic: _Optional[_Union[Arithmetic, str]] = ..., backend: _Optional[_Union[Backend, str]] = ..., materialised: _Optional[_Iterable[str]] = ...) -> None: ...

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
