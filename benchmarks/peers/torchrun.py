"""torchrun, for PyTorch 1.13 too, whose default of where output goes is lost with Python 3.11."""
from torch.distributed import run
from torch.distributed.elastic.multiprocessing import api


def none_is_a_choice(cls, text, original=api.Std.from_str):
    return cls.NONE if text == "0" else original(text)


if __name__ == "__main__":
    api.Std.from_str = classmethod(none_is_a_choice)
    run.main()
