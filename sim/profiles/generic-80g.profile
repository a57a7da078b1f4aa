# An 80 GiB accelerator of the A100/H100 class. Estimates: the orders of magnitude that published measurements of
# driver calls share; no single device. Compare stall times between policies with it, do not quote them.
name generic-80g
origin estimated: orders of magnitude, no single device
capacity_bytes 85899345920      # 80 GiB
context_bytes 536870912         # a CUDA context with the usual libraries, 0.5 GiB
granule_bytes 2097152           # 2 MiB: allocation granularity of the driver
hit_ns 500                      # an allocation or free served from the cache
malloc_ns 100000                # cudaMalloc
malloc_per_mib_ns 500
free_ns 100000                  # cudaFree, on top of the synchronisation it implies
free_per_mib_ns 300
reserve_ns 20000                # cuMemAddressReserve
unreserve_ns 20000
map_ns 20000                    # cuMemCreate + cuMemMap + cuMemSetAccess, a call
map_per_page_ns 60000           # and for each page of 2 or 20 MiB
unmap_ns 20000
unmap_per_page_ns 30000
event_record_ns 1000
event_query_ns 1000
wait_ns 5000                    # a synchronisation that finds nothing to wait for
launch_ns 5000                  # host time of a kernel launch
copy_bytes_per_us 1200000       # device to device, 1.2 TB/s read and written
move_ns 5000                    # per block moved
