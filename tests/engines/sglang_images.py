"""What SGLang's own classes make of requests with images: python sglang_images.py < bodies

It runs in SGLang's environment, without a GPU. Bodies of `/generate` are lines of JSON; of each
comes, as a line of JSON, how many tokens SGLang's prompt has, or why it refuses the request.

A body goes through `GenerateReqInput`, each of its images through `load_image` and `smart_to_rgb`,
as every processor of images loads them, and all of it through `DeepseekV41ImageProcessor`, with the
numbers of V4.1's configuration. Packages that need a GPU are stand-ins, of which nothing is used.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import Any

import sglang_requests

# Models, kernels and what runs them.
UNUSED = (
    *("models", "layers", "model_loader", "distributed", "disaggregation", "mem_cache"),
    *("observability", "configs"),
)
CONFIGURATION = SimpleNamespace(
    image_token_id=129264,
    vision_patch_size=14,
    vision_downsample_ratio=3,
    vision_max_n_token=1024,
    vision_min_pixels=544 * 544,
    vision_max_wh_ratio=None,
)


class _StandIns(sglang_requests._StandIns):
    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname.partition(".")[0] == "sgl_kernel":
            return ModuleSpec(fullname, self, is_package=True)
        return super().find_spec(fullname)


def processor() -> Any:
    """SGLang's processor of images, without the server around it."""
    from sglang.srt.multimodal.deepseek_v41_image_processing import patchify_image
    from sglang.srt.multimodal.processors.deepseek_v41 import DeepseekV41ImageProcessor
    from sglang.srt.utils.common import load_image, smart_to_rgb

    async def load_mm_data(prompt: Any, image_data: Any, **_: Any) -> Any:
        loaded = [load_image(each, gpu_image_decode=False)[0] for each in image_data]
        return SimpleNamespace(images=[smart_to_rgb(image) for image in loaded])

    base: Any = DeepseekV41ImageProcessor
    kind: Any = type("ImageProcessor", (base,), {"keep_mm_features_on_device": False})
    made = kind.__new__(kind)
    made.hf_config, made.image_token_id = CONFIGURATION, CONFIGURATION.image_token_id
    made.preprocess_backend, made.cpu_patchify = "cpu", patchify_image
    made.mm_tokens = None
    made.load_mm_data = load_mm_data
    made._prepare_mm_items_for_transport = lambda items: items
    return made


def tokens_of(body: Any, images: Any) -> int:
    """The tokens of a request's prompt. Raises whatever SGLang refuses it with."""
    from sglang.srt.managers.io_struct import GenerateReqInput

    request = GenerateReqInput(**body)
    request.normalize_batch_and_arguments()
    given = request.image_data
    done = asyncio.run(images.process_mm_data_async(given, request.input_ids, request))
    return len(done.input_ids)


def main() -> None:
    sglang_requests.UNUSED = UNUSED  # type: ignore[assignment]
    sys.meta_path.insert(0, _StandIns())
    images = processor()
    for line in sys.stdin:
        try:
            print(json.dumps(tokens_of(json.loads(line), images)))
        except Exception as error:  # whatever it says no with
            print(json.dumps(repr(error)[:300]))


if __name__ == "__main__":
    main()
