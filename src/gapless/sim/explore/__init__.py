"""Small worlds, exhaustively: every interleaving of what can happen in them, with the cores that ship.

`world` says what a small world consists of; `state` what there is at one moment; `moves` what can happen next, and
`moment` what comes of it; `cores` runs the real cores, each step once, and `fingerprint` tells their states apart;
`history` keeps what happened as far as its order means anything; `search` goes everywhere and has every history judged.
"""
