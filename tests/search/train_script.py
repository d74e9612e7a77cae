"""A small training, run by tests in processes of its own: `train_script.py FOLDER SOLVER STEPS [KILL_AT]`."""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from search.random_batches import make_trainer


def main(folder, solver, steps, kill_at=None):
    torch.set_num_threads(1)
    trainer = make_trainer(folder, solver, int(steps))
    own = trainer._one_step

    def step():
        if kill_at is not None and trainer.step == int(kill_at):
            os.kill(os.getpid(), signal.SIGKILL)
        return own()

    trainer._one_step = step
    trainer.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
