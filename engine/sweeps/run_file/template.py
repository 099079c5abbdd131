"""The run file to begin with: what is needed is there, the rest is in comments with its default."""

from __future__ import annotations

TEMPLATE = """\
# A run file of `itrstress sweep`: checkpoints x variants x directions. Paths are relative to this file.
# A line that begins with "# " and a key is an option with its default, unless it says that it is an example;
# lines of lists in comments are examples too.

# A spec of a model each; `itrstress models list` names the families. A pattern stands for all files that
# fit, in natural order (epoch_9 before epoch_10). What a checkpoint does not say of its preprocessing must be
# named.
checkpoints:
  - open_clip:ViT-B-32:openai
  # - {model: "open_clip:ViT-B-32-quickgelu:epoch_9.pt", name: epoch 9, preprocess: openai}
  # - {model: "open_clip:ViT-B-32-quickgelu:runs/*/epoch_*.pt", preprocess: openai}
  # - {model: "blip:blip_coco.pth", rerank: coco}    # the matching head on the published shortlist

# The captioned image set. `itrstress corpus inspect` shows how it is read.
corpus:
  path: dataset_coco.json
  images: val2014
  # features: regions             # example: in place of images, for models of region features
  # reader: karpathy              # example; by default found out from the content
  # split: test
  # normalisation: raw            # or pre_caption, as BLIP and ALBEF read texts, or tokenised

# An example of several image sets: in place of `corpus`, a list with names. Each has its own folders below
# stores and out.
# corpora: [{name: coco, path: dataset_coco.json, images: val2014}]

# The attacks; `itrstress variants list --long` explains them. One that takes a seed gets the one below, or
# each of its own: compare shows their mean and standard deviation.
variants:
  - same_concept
  - {name: "mix:0.9", seeds: [1, 2, 3]}
  # - rococo:same_concept.json

# i2t: images ask for captions; t2i: captions ask for images.
directions: [i2t, t2i]

# seed: 0                         # of the variants that name none, and of the intervals
# resamples: 1000                 # bootstrap resamples of whole images; 0: no intervals
# ties: expected                  # or optimistic, pessimistic
# ranked: false                   # set recall and DCG@10 too; one more search a run
# distractors: [0]                # numbers of rows such as [0, 10k, 100k], from sets beside the stores
                                  # (`itrstress distractors synthesize` makes one)

# A fixed index (`itrstress index build`) in place of the stores' own galleries: stores hold queries only.
# index: frozen                   # example; by default none
# space: clip-b32                 # example: the name of the space that the checkpoints' vectors share
# allow_space_mismatch: false     # search although the index is of another space; every result says so

# device: auto                    # or cpu, cuda, cuda:N, mps
# precision: fp32                 # or bf16, fp16
# batch_size: 64
# workers: 4                      # example: threads that decode images; by default one a core, at most 8
# backend: auto                   # of the search
# memory_limit: 8GiB              # example: of a search, what is larger is streamed; by default none
# skip_unreadable: false          # leave out images that cannot be read
# Rare: distractor_set, relevance (with ranked), influence.

stores: stores                    # one HDF5 file a checkpoint, reused by later sweeps
out: results                      # one JSON and one Parquet file a run; finished runs are not repeated
"""
