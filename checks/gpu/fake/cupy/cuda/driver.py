class CUDADriverError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"CUDA driver error {status}")
        self.status = status
