"""GST3D by ranks of an MPI program, whose blocks are not equal: mpirun -np 3 python ranks.py"""

import numpy as np
from mpi4py import MPI
from operators.gst3d import gst3d

ranks = MPI.COMM_WORLD
shape = (18 + 7 * ranks.rank, 23, 31 - 2 * ranks.rank)
angles = gst3d(np.random.default_rng(7).random(shape, np.float32))
cells = ranks.reduce(angles[0].size, root=0)
if ranks.rank == 0:
    print(f"{ranks.size} ranks, {cells} cells")
