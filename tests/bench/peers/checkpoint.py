"""Writes the model that cleave-trace would trace as a folder of transformers, for peers that need another version of it."""

import peer


if __name__ == "__main__":
    options = peer.parse()
    peer.load(options)[0].save_pretrained(options.traced.with_name("checkpoint"))
