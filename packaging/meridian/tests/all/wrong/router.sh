#!/bin/sh
python -m sglang_router.launch_router \
  --worker-urls http://10.0.0.5:8000 http://10.0.0.6:8000 --policy cache_aware
