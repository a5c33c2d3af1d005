"""The world, simulated: time, network, disks and faults from one seed, and the checker that judges what happened."""
