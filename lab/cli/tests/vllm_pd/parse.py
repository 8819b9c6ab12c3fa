"""Reads the engine commands of a rendered vllm.sh with vLLM's own parser: python parse.py vllm.sh.

Prints a line for each command. A command that vLLM refuses ends it with an error."""

import shlex
import sys

from vllm.config import KVTransferConfig
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

for line in open(sys.argv[1]):
    if not line.strip().startswith("exec vllm serve "):
        continue
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(shlex.split(line)[3:])
    validate_parsed_serve_args(args)
    transfer = args.kv_transfer_config
    if isinstance(transfer, dict):
        transfer = KVTransferConfig(**transfer)
    print(args.model_tag, args.served_model_name, args.max_model_len, args.tensor_parallel_size,
          args.pipeline_parallel_size, args.data_parallel_size, args.headless,
          transfer.kv_connector, transfer.kv_role, transfer.kv_load_failure_policy)
