"""What a program can see of CuPy's pools and blocks: prints the same with memtrace and without."""

import json
import pickle
import traceback

import cupy
from cupy import cuda

pool = cupy.get_default_memory_pool()
seen = [repr(type(pool)), pool.__doc__, isinstance(pool, cuda.memory.MemoryPool)]
seen += [cuda.MemoryPool.__name__, cuda.get_allocator().__name__]

array = cupy.ones((3, 100), cupy.float32)
memory = array.data.mem
seen += [memory.size, memory.device_id, memory.device.id, memory.ptr == array.data.ptr]
seen += [int(memory) == array.data.ptr, memory.pool is None, pool.used_bytes()]
seen += [cupy.from_dlpack(array).shape, array[1:].data.ptr - array.data.ptr]
seen += [sorted(array.__cuda_array_interface__), pickle.loads(pickle.dumps(array)).shape]
seen.append(hasattr(memory, "no_such_thing"))

memory = pool.malloc(5000).mem
memory.free()
seen += [memory.ptr, memory.size, pool.used_bytes()]
memory.free()
seen += [pool.malloc(0).ptr, pool.n_free_blocks(), pool.total_bytes()]

try:
    cupy.empty(1 << 50, cupy.uint8)
except MemoryError as error:
    seen += [type(error).__name__, str(error), error.__context__ is None]
    seen += [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    pickle.loads(pickle.dumps(error))
del array
pool.free_all_blocks()
seen += [pool.used_bytes(), pool.total_bytes()]
print(json.dumps(seen))
