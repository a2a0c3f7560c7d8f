import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CheckIfNewRequest(_message.Message):
    __slots__ = ("service_code", "run_id", "key", "ttl")
    SERVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    service_code: str
    run_id: str
    key: str
    ttl: _duration_pb2.Duration
    def __init__(self, service_code: _Optional[str] = ..., run_id: _Optional[str] = ..., key: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CheckIfNewResponse(_message.Message):
    __slots__ = ("is_new", "degraded")
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    is_new: bool
    degraded: bool
    def __init__(self, is_new: _Optional[bool] = ..., degraded: _Optional[bool] = ...) -> None: ...

class CheckManyIfNewRequest(_message.Message):
    __slots__ = ("service_code", "run_id", "keys", "ttl")
    SERVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    service_code: str
    run_id: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    ttl: _duration_pb2.Duration
    def __init__(self, service_code: _Optional[str] = ..., run_id: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CheckManyIfNewResponse(_message.Message):
    __slots__ = ("is_new", "degraded")
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    is_new: _containers.RepeatedScalarFieldContainer[bool]
    degraded: bool
    def __init__(self, is_new: _Optional[_Iterable[bool]] = ..., degraded: _Optional[bool] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("service_code", "run_id", "key")
    SERVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    service_code: str
    run_id: str
    key: str
    def __init__(self, service_code: _Optional[str] = ..., run_id: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("found", "value", "degraded")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    found: bool
    value: bytes
    degraded: bool
    def __init__(self, found: _Optional[bool] = ..., value: _Optional[bytes] = ..., degraded: _Optional[bool] = ...) -> None: ...

class SetRequest(_message.Message):
    __slots__ = ("service_code", "run_id", "key", "value", "ttl")
    SERVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    service_code: str
    run_id: str
    key: str
    value: bytes
    ttl: _duration_pb2.Duration
    def __init__(self, service_code: _Optional[str] = ..., run_id: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SetResponse(_message.Message):
    __slots__ = ("degraded",)
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    degraded: bool
    def __init__(self, degraded: _Optional[bool] = ...) -> None: ...

class ExistsRequest(_message.Message):
    __slots__ = ("service_code", "run_id", "key")
    SERVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    service_code: str
    run_id: str
    key: str
    def __init__(self, service_code: _Optional[str] = ..., run_id: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class ExistsResponse(_message.Message):
    __slots__ = ("exists", "degraded")
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    exists: bool
    degraded: bool
    def __init__(self, exists: _Optional[bool] = ..., degraded: _Optional[bool] = ...) -> None: ...

class RunStatsRequest(_message.Message):
    __slots__ = ("service_code", "run_id")
    SERVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    service_code: str
    run_id: str
    def __init__(self, service_code: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class RunStatsResponse(_message.Message):
    __slots__ = ("keys", "degraded")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    keys: int
    degraded: bool
    def __init__(self, keys: _Optional[int] = ..., degraded: _Optional[bool] = ...) -> None: ...

class ForgetRunRequest(_message.Message):
    __slots__ = ("service_code", "run_id")
    SERVICE_CODE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    service_code: str
    run_id: str
    def __init__(self, service_code: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class ForgetRunResponse(_message.Message):
    __slots__ = ("forgotten",)
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    forgotten: int
    def __init__(self, forgotten: _Optional[int] = ...) -> None: ...
