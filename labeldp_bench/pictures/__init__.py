"""Kinds of picture: one short file each, named by `figure.kind` in an experiment's YAML.

A kind is a module with

- `OPTIONS`: the keys that it understands in the YAML's `figure:` beside the common ones,
- `draw(points, spec)`: returns a matplotlib figure made with `plotting.new_figure`, whose title
  and footnote the caller adds; `CAPTION` says what bands, bars and dashes mean.

`points` has a row per point that the experiment asks for, done or not (see `figures.Points`).
Nothing here reads a file or imports torch.
"""
