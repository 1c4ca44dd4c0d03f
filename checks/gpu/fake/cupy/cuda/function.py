from cupy.cuda import driver, kernels, runtime


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
        # Real machine code, of a lesson say, multiplies as it should, or is what the scene says.
        machine = runtime.scene.get("machine", "gemm").replace("-", " ")
        name, _, number = (machine if cubin.startswith(b"\x7fELF") else cubin.decode()).partition(" ")
        if name not in kernels.KERNELS:
            raise driver.CUDADriverError(209)
        self._kernel = kernels.KERNELS[name](number)

    def get_function(self, name):
        if name == "hold_queue":
            return Function(kernels.hold_queue)
        return Function(self._kernel)
