"""The family of errors. Each says what happened, to what, and what to do.

GaplessError
├── ConfigError          a configuration file or an address is wrong
├── FilterError          a filter or topic pattern does not parse or is too large
├── CursorError          a cursor cannot be read, or belongs to another space
├── PublicationError     a publication cannot be sent as it is (the publisher's mistake)
│   ├── AttributeTypeError
│   ├── SchemaError
│   └── TooLarge
├── UnknownSpace         the broker has no space of that name
├── Unsupported          the delivery of this space cannot do that
├── Overloaded           refused before a seq was given: nothing was sent
├── OutcomeUnknown       sent, and not known whether accepted
├── Refused              the space refused it; it will never be delivered
│   ├── Fenced           a newer holder of the publisher's name has taken over
│   └── TooManyNames     this connection has published under as many names as it may
├── DeadlineExceeded     waiting ended; what was waited for may still happen
├── Closed               the object was closed before
├── Unreachable          no server of the list could be reached
└── WireError            a peer sent what cannot be read
    ├── VersionMismatch
    └── FrameTooLarge
"""

from __future__ import annotations


class GaplessError(Exception):
    """Whatever Gapless raises on purpose."""


class ConfigError(GaplessError):
    """A configuration or an address that cannot be used as it is."""


class FilterError(GaplessError):
    """A filter or topic pattern that does not parse, has a type error, or is over a limit."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class CursorError(GaplessError):
    """A cursor that cannot be read, or that was made in another space or cluster."""


class PublicationError(GaplessError):
    """A publication that cannot be sent as it is; nothing was sent."""


class AttributeTypeError(PublicationError):
    """An attribute has a name or a value outside bool, int64, float64, string and timestamp."""


class SchemaError(PublicationError):
    """An attribute does not have the type that its space declares."""


class TooLarge(PublicationError):
    """A body, an attribute or a whole publication is over its limit."""


class UnknownSpace(GaplessError):
    """The broker has no space of that name."""


class Unsupported(GaplessError):
    """The delivery of this space cannot do what was asked."""


class Overloaded(GaplessError):
    """There is no room now; nothing was given a seq or sent."""


class OutcomeUnknown(GaplessError):
    """What was sent may or may not have been accepted."""


class Refused(GaplessError):
    """The space refused the request; it has had and will have no effect."""


class Fenced(Refused):
    """A newer holder of the publisher's name has taken over."""


class TooManyNames(Refused):
    """This connection has published under as many names as it may."""


class DeadlineExceeded(GaplessError):
    """The deadline passed while waiting."""


class Closed(GaplessError):
    """The object was closed."""


class Unreachable(GaplessError):
    """No server of the list could be reached."""


class WireError(GaplessError):
    """A peer sent something that cannot be read; its session ends."""


class VersionMismatch(WireError):
    """A peer speaks another version of the protocol."""


class FrameTooLarge(WireError):
    """A frame is over the limit."""
