"""The site's own tables and pictures: best-known results, findings, trust, report."""
