"""Classes of transformers' image-text-to-text mapping that cannot be pruned, each with the reason that a user reads."""

NO_VISUAL_TOKENS: dict[str, str] = {
    "blip": "its decoder reads the picture by cross-attention",
    "evolla": "it reads proteins, by cross-attention",
    "florence2": "the picture is read by an encoder, and the decoder writes by cross-attention",
    "git": "its decoder has the picture in front of the text, without placeholders in the prompt",
    "idefics": "its decoder reads the picture by cross-attention",
    "mistral4": "it is a language model and takes no pictures",
    "mllama": "its decoder reads the picture by cross-attention",
    "pi0": "it writes actions of a robot by denoising, not text",
    "pix2struct": "the picture is read by an encoder, and the decoder writes by cross-attention",
    "pp_formulanet": "the picture is read by an encoder, and the decoder writes by cross-attention",
    "t5gemma2": "the picture is read by an encoder, and the decoder writes by cross-attention",
    "udop": "the picture is read by an encoder, and the decoder writes by cross-attention",
    "vision-encoder-decoder": "the picture is read by an encoder, and the decoder writes by cross-attention",
}
"""Classes whose decoder layers process no visual tokens: there is nothing to prune."""

OTHERWISE: dict[str, str] = {
    "diffusion_gemma": "it writes blocks of text by diffusion, and one pass holds several prompts of that block",
}
"""Classes with visual tokens that are not served."""
