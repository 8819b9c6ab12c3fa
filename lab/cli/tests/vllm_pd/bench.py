"""`vllm bench serve`, with its arguments.

The program `vllm` looks up its version as that of the package `vllm`, which vLLM's build for CPUs is not
named. This is the same command without the program's other ones.
"""

from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser

if __name__ == "__main__":
    parser = FlexibleArgumentParser(prog="vllm bench serve")
    add_cli_args(parser)
    main(parser.parse_args())
