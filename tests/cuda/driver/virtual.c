/* Virtual memory management: reservations of addresses, physical memory behind handles, and mappings of one into the other.
 * Physical memory is freed when its last reference is released and its last mapping unmapped, whichever comes last. */
#include "driver.h"

#define GRANULARITY (2 * MIB)
#define HANDLE_BITS ((uint64_t)0xfa << 56) /* handles are not pointers */

static bool in_grains(uint64_t value) { return value % GRANULARITY == 0; }

static CUresult device_of(const CUmemAllocationProp *properties, int *device) {
    NEED(properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED);
    bool on_host = properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    NEED(on_host || properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    if (!on_host) NEED_DEVICE(properties->location.id);
    *device = on_host ? NO_DEVICE : properties->location.id;
    return CUDA_SUCCESS;
}

static struct block *physical_of(CUmemGenericAllocationHandle handle) {
    struct block *physical = find(CLASS_PHYSICAL, handle);
    return physical && physical->references ? physical : NULL;
}

static void end_if_unused(struct block *physical) {
    if (!physical->references && !physical->mappings) end_block(physical);
}

static CUmemGenericAllocationHandle new_physical(enum kind kind, int device, uint64_t bytes, bool exportable) {
    struct block *physical = new_entry(CLASS_PHYSICAL, sizeof *physical);
    physical->kind = kind;
    physical->device = device;
    physical->bytes = bytes;
    physical->references = 1;
    physical->exportable = exportable;
    set_key(count_new(physical), KEY(physical) | HANDLE_BITS);
    return physical->entry.key;
}

ENTRY(cuMemGetAllocationGranularity)(size_t *granularity, const CUmemAllocationProp *properties,
                                     CUmemAllocationGranularity_flags option) {
    ENTER();
    (void)option;
    int device;
    NEED(granularity);
    TRY(device_of(properties, &device));
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

ENTRY(cuMemAddressReserve)(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags) {
    ENTER();
    (void)wish; /* a hint */
    NEED(address && bytes && in_grains(bytes) && !flags && !(alignment & (alignment - 1)));
    struct range range;
    REFUSE_IF(!take_range(SPACE_VIRTUAL, bytes, &range), CUDA_ERROR_OUT_OF_MEMORY);
    struct block *reservation = new_entry(CLASS_RESERVATION, sizeof *reservation);
    reservation->bytes = bytes;
    reservation->range = range;
    set_key(reservation, range.address);
    *address = range.address;
    return CUDA_SUCCESS;
}

/* The first mapping that has an address in the range. */
static struct block *mapped_in(uint64_t address, uint64_t bytes) {
    struct block *found = NULL;
    for (struct entry *entry = first(CLASS_MAPPING); entry; entry = entry->next) {
        struct block *mapping = (struct block *)entry;
        bool inside = entry->key < address + bytes && address < entry->key + mapping->bytes;
        if (inside && (!found || entry->key < found->entry.key)) found = mapping;
    }
    return found;
}

ENTRY(cuMemAddressFree)(CUdeviceptr address, size_t bytes) {
    ENTER();
    struct block *reservation = find(CLASS_RESERVATION, address);
    NEED(reservation && reservation->bytes == bytes && !mapped_in(address, bytes));
    give_range(reservation->range);
    drop(reservation);
    return CUDA_SUCCESS;
}

ENTRY(cuMemCreate)(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                   unsigned long long flags) {
    ENTER();
    int device;
    NEED(handle && bytes && in_grains(bytes) && !flags);
    TRY(device_of(properties, &device));
    REFUSE_IF(!is_room(device, bytes), CUDA_ERROR_OUT_OF_MEMORY);
    bool exportable = properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    *handle = new_physical(KIND_PHYSICAL, device, bytes, exportable);
    return CUDA_SUCCESS;
}

ENTRY(cuMemRelease)(CUmemGenericAllocationHandle handle) {
    ENTER();
    struct block *physical = physical_of(handle);
    NEED(physical);
    physical->references--;
    end_if_unused(physical);
    return CUDA_SUCCESS;
}

ENTRY(cuMemMap)(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                unsigned long long flags) {
    ENTER();
    struct block *physical = physical_of(handle), *reservation = block_around(CLASS_RESERVATION, address);
    NEED(physical && reservation && bytes && in_grains(address) && in_grains(bytes) && !offset && !flags);
    NEED(bytes <= physical->bytes && address + bytes <= reservation->entry.key + reservation->bytes);
    NEED(!mapped_in(address, bytes));
    struct block *mapping = new_entry(CLASS_MAPPING, sizeof *mapping);
    mapping->kind = KIND_MAPPED;
    mapping->device = physical->device;
    mapping->bytes = bytes;
    mapping->owner = physical;
    set_key(count_new(mapping), address);
    physical->mappings++;
    return CUDA_SUCCESS;
}

/* Whole mappings that lie end to end: the range may be that of several. */
static bool is_whole(uint64_t address, uint64_t bytes) {
    uint64_t end = address + bytes;
    while (address < end) {
        struct block *mapping = find(CLASS_MAPPING, address);
        if (!mapping) return false;
        address += mapping->bytes;
    }
    return bytes && address == end;
}

ENTRY(cuMemUnmap)(CUdeviceptr address, size_t bytes) {
    ENTER();
    NEED(is_whole(address, bytes));
    struct block *mapping;
    while ((mapping = mapped_in(address, bytes))) {
        struct block *physical = mapping->owner;
        physical->mappings--;
        end_block(mapping);
        end_if_unused(physical);
    }
    return CUDA_SUCCESS;
}

ENTRY(cuMemSetAccess)(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *accesses, size_t count) {
    ENTER();
    NEED(accesses && count && is_whole(address, bytes));
    return CUDA_SUCCESS;
}

ENTRY(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle *handle, void *address) {
    ENTER();
    struct block *mapping = block_around(CLASS_MAPPING, KEY(address));
    NEED(handle && mapping);
    struct block *physical = mapping->owner;
    physical->references++;
    *handle = physical->entry.key;
    return CUDA_SUCCESS;
}

ENTRY(cuMemGetAllocationPropertiesFromHandle)(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle) {
    ENTER();
    struct block *physical = physical_of(handle);
    NEED(properties && physical);
    bool on_host = physical->device == NO_DEVICE;
    memset(properties, 0, sizeof *properties);
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location.type = on_host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    properties->location.id = on_host ? 0 : physical->device;
    if (physical->exportable) properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return CUDA_SUCCESS;
}

ENTRY(cuMemExportToShareableHandle)(void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                    unsigned long long flags) {
    ENTER();
    struct block *physical = physical_of(handle);
    NEED(physical && physical->exportable && !flags);
    return export_share(share_of(handle, physical->bytes, physical->device), type, shared);
}

ENTRY(cuMemImportFromShareableHandle)(CUmemGenericAllocationHandle *handle, void *shared, CUmemAllocationHandleType type) {
    ENTER();
    NEED(handle);
    struct share share;
    TRY(import_share(&share, type, shared));
    *handle = new_physical(KIND_IMPORTED_PHYSICAL, share.device, share.bytes, true);
    return CUDA_SUCCESS;
}
