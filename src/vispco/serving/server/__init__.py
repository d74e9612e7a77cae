"""An OpenAI-compatible endpoint for a pruned model, on transformers' own server.

What is transformers': the routes, the model manager, the inference thread, streaming and the form of answers. What is
here: a manager that loads as `vispco.load` does, a chat handler that prunes each request at its budget and says what
that took, and a gate that keeps bad and oversized requests out.
"""
