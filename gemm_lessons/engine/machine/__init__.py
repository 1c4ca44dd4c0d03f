"""Running a program: registers, memories, divergence, barriers.

- ``prepared``: a kernel, once for all launches; ``decode``: its instructions as closures, once for each
- ``machine``: the launch, batch by batch, on the ``state`` of one; ``executed``: how often what was
- ``memory``, ``access``, ``transfers``, ``copies``, ``bulk``, ``atomics``: bytes, moved; ``faults``: missed
- ``images`` with ``textures``, ``maps`` with ``tensors``: memory by coordinates
- ``barriers``, ``convergence``, ``phases`` with ``mbarriers``, ``mbarrier_waits``, ``spin_waits``: who waits for whom
- ``groups``, ``warps``, ``matrices``, ``products``: instructions of many registers or many lanes at once
- ``special``, ``symbols``, ``printing``: what comes from outside, and goes there
- ``unset``, ``undefined``: registers that nobody has written
"""
