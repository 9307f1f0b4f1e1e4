"""Kinds of picture: one short file each, named by `figure.kind` in an experiment's YAML.

A kind is a module with

- `OPTIONS`: the keys of the YAML's `figure:` that it reads itself (`spec.options`);
- `CAPTION`: what its bands, bars and dashes mean; stands below the picture;
- `draw(points, spec)`: a figure from `plotting.new_figure`. The caller adds title and caption.
- `notes(points, spec)`, where there is more to say: a list of Markdown parts for the page.

`points` has one row per point that the experiment asks for, done or not; its columns are those of
`paper.PaperFigure.points`, among them the records behind each point, for kinds that draw more
than one number of them. `spec` is a `spec.Spec`. Imports no torch, reads no file.
"""
