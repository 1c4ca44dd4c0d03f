from cupy.cuda import driver, kernels


class Function:
    def __init__(self, kernel):
        self._kernel = kernel
        self.ptr = id(self)

    def __call__(self, grid, block, arguments, shared_mem=0):
        if block[0] * block[1] * block[2] > 1024 or shared_mem > driver.limits.get(self.ptr, 48 * 1024):
            raise driver.CUDADriverError(1)
        self._kernel(grid, [argument.tobytes() for argument in arguments])


class Module:
    def load(self, cubin):
        # Real machine code, of a lesson's solution say, is taken to multiply as it should.
        name, _, number = ("gemm" if cubin.startswith(b"\x7fELF") else cubin.decode()).partition(" ")
        if name not in kernels.KERNELS:
            raise driver.CUDADriverError(209)
        self._kernel = kernels.KERNELS[name](number)

    def get_function(self, name):
        return Function(self._kernel)
