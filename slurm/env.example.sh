# What differs from cluster to cluster. Copy to slurm/env.sh (not committed: .gitignore names it)
# or name another file in PROACT_ENV_FILE. Every job sources it, on every node.

# The environment that `make install` made; on a cluster a path that all nodes see.
export PROACT_VENV=.venv
# Training processes a node: one a GPU.
export PROACT_PROCS_PER_NODE=8
# How they work together; ranks, address and port are filled in by the job.
export PROACT_ACCELERATE=recipes/accelerate/zero3_2nodes.yaml

# Nothing is downloaded while a job runs.
export HF_HUB_OFFLINE=1
export TOKENIZERS_PARALLELISM=false
# DeepSpeed compiles its helpers here at the first launch: local to the node, or nodes would wait for
# one another's locks in a shared home.
export TORCH_EXTENSIONS_DIR=/tmp/torch_extensions_$(id -un)
# wandb writes below ./wandb; `wandb sync` sends it from a node with network.
export WANDB_MODE=offline
# The interface that nodes reach one another by, where they have several.
# export NCCL_SOCKET_IFNAME=ib0
# export GLOO_SOCKET_IFNAME=ib0
