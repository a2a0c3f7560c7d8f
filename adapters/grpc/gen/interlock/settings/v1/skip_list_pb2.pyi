import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AddReportsRequest(_message.Message):
    __slots__ = ("event_type", "report_ids", "reason")
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    REPORT_IDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    event_type: str
    report_ids: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    def __init__(self, event_type: _Optional[str] = ..., report_ids: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ...) -> None: ...

class AddReportsResponse(_message.Message):
    __slots__ = ("added", "already_listed")
    ADDED_FIELD_NUMBER: _ClassVar[int]
    ALREADY_LISTED_FIELD_NUMBER: _ClassVar[int]
    added: int
    already_listed: int
    def __init__(self, added: _Optional[int] = ..., already_listed: _Optional[int] = ...) -> None: ...

class RemoveReportsRequest(_message.Message):
    __slots__ = ("event_type", "report_ids")
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    REPORT_IDS_FIELD_NUMBER: _ClassVar[int]
    event_type: str
    report_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, event_type: _Optional[str] = ..., report_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RemoveReportsResponse(_message.Message):
    __slots__ = ("removed", "not_listed")
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    NOT_LISTED_FIELD_NUMBER: _ClassVar[int]
    removed: int
    not_listed: int
    def __init__(self, removed: _Optional[int] = ..., not_listed: _Optional[int] = ...) -> None: ...

class ListReportsRequest(_message.Message):
    __slots__ = ("event_type", "page_size", "page_token")
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    event_type: str
    page_size: int
    page_token: str
    def __init__(self, event_type: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListReportsResponse(_message.Message):
    __slots__ = ("reports", "next_page_token")
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reports: _containers.RepeatedCompositeFieldContainer[Report]
    next_page_token: str
    def __init__(self, reports: _Optional[_Iterable[_Union[Report, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("report_id", "event_type", "reason", "added_at")
    REPORT_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ADDED_AT_FIELD_NUMBER: _ClassVar[int]
    report_id: str
    event_type: str
    reason: str
    added_at: _timestamp_pb2.Timestamp
    def __init__(self, report_id: _Optional[str] = ..., event_type: _Optional[str] = ..., reason: _Optional[str] = ..., added_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
