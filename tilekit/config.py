class _C:
    max_unroll = 16
    index_checks = True
    checked = False
config = _C()
