"""What is to be embedded: the header of a store and the plans of its sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.corpus.corpus import Corpus
from engine.encoders.encoder import Encoder
from engine.encoders.registry import cut_texts, describe_encoder
from engine.errors import InputError
from engine.packages import package_versions
from engine.path_text import path_text
from engine.store.plans import original_plans, variant_plan
from engine.store.reader import open_store
from engine.store.schema import MODALITIES, ORIGINAL, SetPlan, StoredDtype, StoreHeader
from engine.variants.variant import Modality, Variant, VariantItems

CUT_TEXTS = "texts_cut"  # in how a caption set is made


@dataclass(frozen=True)
class Work:
    """The plans of all sets of each modality, originals first, none where it is not embedded; the items of
    the image variants by the set's name; and the variants' notes."""

    captions: tuple[SetPlan, ...]
    images: tuple[SetPlan, ...]
    recipes: Mapping[str, VariantItems]
    notes: tuple[str, ...] = ()


def header_of(encoder: Encoder, corpus: Corpus, dtype: StoredDtype) -> StoreHeader:
    """The header of a store of an encoder's rows of a corpus."""
    return StoreHeader(
        encoder_spec=encoder.spec,
        encoder_fingerprint=encoder.fingerprint,
        dim=encoder.dim,
        corpus_name=corpus.name,
        corpus_fingerprint=corpus.fingerprint,
        normalisation=corpus.normalisation,
        dtype=dtype,
        corpus_source="" if corpus.source is None else path_text(corpus.source),
    )


def made_by(encoder: Encoder, batch_size: int, command: Sequence[str]) -> Mapping[str, Any]:
    """How the sets of a run are made: everything beyond corpus and variant that decides an embedding."""
    return {
        "command": list(command),
        "encoder": {"spec": encoder.spec, **describe_encoder(encoder)},
        "batch_size": batch_size,
        "versions": package_versions(),
    }


def with_cut_texts(plans: Sequence[SetPlan], encoder: Encoder) -> tuple[SetPlan, ...]:
    """The caption sets, with the number of texts that the model cuts in how they are made (`CUT_TEXTS`).

    Unchanged for an encoder that does not say which it cuts.
    """
    texts = list(dict.fromkeys(text for plan in plans for text in plan.content))
    cut = cut_texts(encoder, texts)
    if cut is None:
        return tuple(plans)
    is_cut = dict(zip(texts, cut.tolist(), strict=True))
    return tuple(
        replace(plan, made={**plan.made, CUT_TEXTS: sum(is_cut[text] for text in plan.content)})
        for plan in plans
    )


def check_modalities(modalities: Sequence[Modality], variants: Sequence[Variant]) -> None:
    """Raise `InputError` for a variant whose items are not among what is embedded."""
    for one in variants:
        if one.modality not in modalities:
            raise InputError(
                f"variant {one.name}: its items are {one.modality}, and only {', '.join(modalities)} are "
                "embedded; leave it out, or embed both"
            )


def plan_work(
    corpus: Corpus,
    variants: Sequence[Variant],
    digests: Sequence[str] | None,
    made: Mapping[str, Any],
    modalities: Sequence[Modality] = MODALITIES,
) -> Work:
    """Apply the variants and plan every set of these modalities. Raises `InputError` as the variants do."""
    applied = [(variant, variant.apply(corpus)) for variant in variants]
    images, captions = original_plans(corpus, digests)
    planned = {"images": [images], "captions": [captions]}
    for variant, items in applied:
        planned[variant.modality].append(variant_plan(corpus, variant, items, digests))
    recipes = {variant.name: items for variant, items in applied if variant.modality == "images"}
    captions_made, images_made = (
        tuple(replace(plan, made=made) for plan in planned[one] if one in modalities)
        for one in ("captions", "images")
    )
    notes = tuple(items.note for _, items in applied if items.note)
    return Work(captions_made, images_made, recipes, notes)


def image_digests(digests: Sequence[str], resumed: Path | None) -> tuple[str, ...] | None:
    """What the key of a store says of the image files, one an image, from the files' digests.

    Where the `resumed` store has no digest of a file, none is given, so that a whole file can take the place
    of one that was not; where the file is missing or cut off now, the stored one stays, because that is no
    other image. None when the store has none at all (an import).
    """
    there = None if resumed is None else stored_digests(resumed)
    if there is None:
        return tuple(digests)
    if there == ():
        return None
    kept = (old and (new or old) for old, new in zip(there, digests, strict=False))
    return (*kept, *digests[len(there) :])


def gone_files(corpus: Corpus, found: Sequence[str], kept: Sequence[str] | None) -> tuple[str, ...]:
    """The image files that a resumed store has a digest of and that are missing or cut off now."""
    return tuple(
        image.file
        for image, now, stored in zip(corpus.images, found, kept or (), strict=False)
        if stored and not now
    )


def stored_digests(path: Path) -> tuple[str, ...] | None:
    """The digests of the original images in a store, () when it keeps none, None when there is no
    such set."""
    if not path.is_file():
        return None
    try:
        with open_store(path) as store:
            return store.load("images", ORIGINAL, complete=False).content_digest or ()
    except InputError:
        return None  # the writer says what is wrong with it
