"""
Published figures of Jetson modules; nothing here was measured.

Memory is shared by CPU and GPU, and the system takes its part. The published TOPS are sparse INT8,
FP4 on Thor, and not what llama.cpp computes with: there is no column for them.

Sources, NVIDIA's documents: the Modules Data Sheets of the Jetson Orin Nano Series, the Orin NX
Series, the AGX Orin Series (DS-10662-001 v1.8, page 12) and the Thor Series; for the modes called
Super those of the Orin Nano Super Developer Kit. The figures were read where others quote them.
"""

from typing import Final, NamedTuple


class Module(NamedTuple):
    """One module as published."""

    name: str
    memory_bytes: int
    bandwidth: float
    """Peak [bytes/s]."""
    source: str


_ORIN_NANO: Final = 'Orin Nano Series Modules Data Sheet'
_SUPER: Final = 'Orin Nano Super (JetPack 6.1 and later)'
_ORIN_NX: Final = 'Orin NX Series Modules Data Sheet'
_AGX_ORIN: Final = 'AGX Orin Series Modules Data Sheet, DS-10662-001 v1.8'
_THOR: Final = 'Thor Series Modules Data Sheet'
_GB: Final = 2**30

MODULES: Final = (
    Module('Orin Nano 4GB', 4 * _GB, 34e9, _ORIN_NANO),
    Module('Orin Nano 4GB Super', 4 * _GB, 51e9, _SUPER),
    Module('Orin Nano 8GB', 8 * _GB, 68e9, _ORIN_NANO),
    Module('Orin Nano 8GB Super', 8 * _GB, 102e9, _SUPER),
    Module('Orin NX 8GB', 8 * _GB, 102.4e9, _ORIN_NX),
    Module('Orin NX 16GB', 16 * _GB, 102.4e9, _ORIN_NX),
    Module('AGX Orin 32GB', 32 * _GB, 204.8e9, _AGX_ORIN),
    Module('AGX Orin 64GB', 64 * _GB, 204.8e9, _AGX_ORIN),
    Module('Thor T5000', 128 * _GB, 273e9, _THOR))
