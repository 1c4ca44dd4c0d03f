class CUDADriverError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"CUDA driver error {status}")
        self.status = status


limits: dict[object, int] = {}  # of dynamic shared memory, by function


def funcSetAttribute(function, attribute, value):
    assert attribute == 8
    if value > 227 * 1024:
        raise CUDADriverError(1)
    limits[function] = value
