"""The HDF5 store: one file of L2-normalised rows for one encoder checkpoint on one corpus."""

from engine.store.plans import original_plans, variant_plan
from engine.store.reader import EmbeddingSet, SetInfo, Store, open_store
from engine.store.schema import COMPLETE, ORIGINAL, PENDING, SKIPPED, SetPlan, StoreHeader, VariantRecord
from engine.store.writer import StoreWriter, open_writer

__all__ = [
    "COMPLETE",
    "ORIGINAL",
    "PENDING",
    "SKIPPED",
    "EmbeddingSet",
    "SetInfo",
    "SetPlan",
    "Store",
    "StoreHeader",
    "StoreWriter",
    "VariantRecord",
    "open_store",
    "open_writer",
    "original_plans",
    "variant_plan",
]
