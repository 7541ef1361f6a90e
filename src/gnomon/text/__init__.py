"""Raw files to batches: lines, corpora, tokenizer, token store, length-bucketed batches.

This room knows text and ids. It must not know models, losses or devices beyond moving a batch.
"""
