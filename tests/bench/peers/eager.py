"""The module itself, operator by operator."""

import peer


def prepare(options):
    module, inputs = peer.load(options)
    return lambda: module(**inputs)


if __name__ == "__main__":
    peer.run_alone(prepare)
