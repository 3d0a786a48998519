//! Strategies for rows of every table.

use memtrace_trace::rows::{
    AccessRow, AllocationRow, ArrayInfo, DeviceRow, FoldedRow, FrameRow, KernelEventRow, Kind, ModuleRow,
    Pages, ProcessRow, Role, SiteRow, SpanResident, SpanRow, ThreadRow, TimelineRow, Untouched,
};
use memtrace_trace::{Lost, Meta, OutOfMemory, Peak, Rows, Share, SiteShare, Totals};
use proptest::prelude::*;
use serde_json::Value;

/// Text with what JSON, Parquet and CSV stumble over.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!['a', '"', '\\', '\n', '\0', ',', 'é', '🧱']), 0..8)
        .prop_map(|characters| characters.into_iter().collect())
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Malloc,
        Kind::Calloc,
        Kind::Realloc,
        Kind::Aligned,
        Kind::MapAnonymous,
        Kind::MapShared,
        Kind::MapFile,
        Kind::MapReserved,
        Kind::MapBreak,
        Kind::MapArena,
        Kind::Cuda,
        Kind::CudaImportedPhysical,
        Kind::PoolBlock,
    ])
}

fn role() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::None, Role::Input, Role::Output, Role::Temporary, Role::Once])
}

pub(crate) fn block() -> impl Strategy<Value = AllocationRow> {
    let place = (0u32..4, any::<u32>(), kind(), any::<Option<u64>>(), any::<u64>());
    let time = (any::<i64>(), any::<Option<i64>>());
    let device = any::<Option<u32>>();
    let context = (any::<Option<u64>>(), any::<u32>(), prop::option::of(0u32..10), role(), device);
    (place, time, context).prop_map(|(place, time, context)| AllocationRow {
        process: place.0,
        thread: place.1,
        kind: place.2,
        address: place.3,
        bytes: place.4,
        alloc_ns: time.0,
        free_ns: time.1,
        site: context.0,
        ordinal: context.1,
        span: context.2,
        role: context.3,
        device: context.4,
    })
}

pub(crate) fn process() -> impl Strategy<Value = ProcessRow> {
    let identity = (any::<[u32; 3]>(), text(), text());
    let life = (any::<i64>(), any::<Option<i64>>(), any::<Option<i32>>(), any::<i64>());
    (identity, life, any::<[u64; 14]>(), any::<[Option<u64>; 13]>()).prop_map(
        |(identity, life, numbers, garbage)| ProcessRow {
            process: identity.0[0],
            pid: identity.0[1],
            ppid: identity.0[2],
            command: identity.1,
            origin: identity.2,
            start_ns: life.0,
            end_ns: life.1,
            parted_ns: life.1.map(|end| end / 2),
            exit: life.2,
            peak_live_bytes: numbers[0],
            peak_heap_bytes: numbers[1],
            peak_mapped_bytes: numbers[2],
            peak_resident_bytes: numbers[3],
            probe_bytes: numbers[4],
            peak_ns: life.3,
            allocations: numbers[5],
            requested_bytes: numbers[6],
            lost_events: numbers[7],
            inherited_releases: numbers[8],
            unseen_releases: numbers[9],
            unattributed_allocations: numbers[12],
            unattributed_bytes: numbers[13],
            gc_independent_bytes: garbage[0],
            gc_independent_upper_bytes: garbage[1],
            garbage_at_peak_bytes: garbage[2],
            collections: numbers[10],
            collect_ns: numbers[11],
            resident_peak_ns: life.1,
            resident_anon_bytes: garbage[3],
            resident_file_bytes: garbage[4],
            resident_shmem_bytes: garbage[5],
            resident_live_bytes: garbage[6],
            resident_mapped_bytes: garbage[7],
            page_faults: garbage[8],
            resident_untouched_bytes: garbage[9],
            page_table_bytes: garbage[10],
            resident_stack_bytes: garbage[11],
            resident_data_bytes: garbage[12],
            allocator_settings: garbage[0].map(|number| format!("MALLOC_TRIM_THRESHOLD_={number}")),
        },
    )
}

pub(crate) fn device() -> impl Strategy<Value = DeviceRow> {
    let identity = (any::<u32>(), any::<Option<u32>>(), prop::option::of(text()), any::<i64>());
    (identity, any::<[Option<u64>; 3]>(), any::<[u64; 11]>()).prop_map(|(identity, options, numbers)| {
        DeviceRow {
            process: identity.0,
            device: identity.1,
            name: identity.2,
            total_bytes: options[0],
            peak_driver_bytes: numbers[0],
            peak_ns: identity.3,
            used_at_peak_bytes: numbers[1],
            peak_used_bytes: numbers[2],
            peak_pool_bytes: numbers[3],
            peak_framework_bytes: options[1],
            peak_framework_reserved_bytes: options[2],
            peak_managed_bytes: numbers[4],
            peak_host_bytes: numbers[5],
            peak_registered_bytes: numbers[6],
            peak_imported_bytes: numbers[7],
            allocations: numbers[8],
            requested_bytes: numbers[9],
            unseen_releases: numbers[10],
        }
    })
}

pub(crate) fn thread() -> impl Strategy<Value = ThreadRow> {
    (any::<[u32; 3]>(), any::<i64>(), any::<u64>()).prop_map(|(ids, start_ns, events)| ThreadRow {
        thread: ids[0],
        process: ids[1],
        tid: ids[2],
        start_ns,
        events,
    })
}

pub(crate) fn module() -> impl Strategy<Value = ModuleRow> {
    (any::<u32>(), text(), any::<u64>(), any::<u64>(), text())
        .prop_map(|(process, path, start, end, build_id)| ModuleRow { process, path, start, end, build_id })
}

pub(crate) fn timeline() -> impl Strategy<Value = TimelineRow> {
    (any::<u32>(), any::<i64>(), text(), any::<[u64; 3]>(), any::<Option<u64>>(), pages()).prop_map(
        |(process, time_ns, reason, bytes, resident_bytes, pages)| TimelineRow {
            pages,
            process,
            time_ns,
            reason,
            live_bytes: bytes[0],
            heap_bytes: bytes[1],
            mapped_bytes: bytes[2],
            resident_bytes,
            device_bytes: resident_bytes.map(|bytes| bytes ^ 1),
        },
    )
}

fn pages() -> impl Strategy<Value = Option<Pages>> {
    let pages =
        |numbers: [u64; 4]| Pages { anon: numbers[0], file: numbers[1], shmem: numbers[2], swap: numbers[3] };
    prop::option::of(any::<[u64; 4]>().prop_map(pages))
}

pub(crate) fn kernel_event() -> impl Strategy<Value = KernelEventRow> {
    let who = (any::<Option<u32>>(), any::<[u32; 2]>(), any::<i64>(), text());
    let what = (any::<[Option<u64>; 2]>(), any::<[Option<i64>; 2]>(), pages(), any::<Option<u64>>());
    (who, what).prop_map(|(who, what)| KernelEventRow {
        process: who.0,
        pid: who.1[0],
        tid: who.1[1],
        time_ns: who.2,
        event: who.3,
        address: what.0[0],
        bytes: what.0[1],
        value: what.1[0],
        took_ns: what.1[1],
        pages: what.2,
        site: what.3,
    })
}

pub(crate) fn access() -> impl Strategy<Value = AccessRow> {
    let who = (any::<[u32; 2]>(), any::<[Option<u32>; 3]>(), any::<i64>(), text());
    let what = (any::<u64>(), any::<[Option<u64>; 4]>(), any::<Option<i64>>(), prop::option::of(text()));
    (who, what).prop_map(|(who, what)| AccessRow {
        process: who.0[0],
        thread: who.1[0],
        tid: who.0[1],
        time_ns: who.2,
        access: who.3,
        address: what.0,
        block_address: what.1[0],
        block_bytes: what.1[1],
        block_thread: who.1[1],
        block_ns: what.2,
        site: what.1[2],
        span: who.1[2],
        level: what.3,
        latency_cycles: what.1[3],
    })
}

fn array() -> impl Strategy<Value = ArrayInfo> {
    let form = (text(), prop::collection::vec(any::<u64>(), 0..5), text(), text());
    let shared = (text(), text(), text());
    (form, any::<[u64; 4]>(), shared).prop_map(|(form, [bytes, address, start, extent], shared)| ArrayInfo {
        name: form.0,
        shape: form.1,
        dtype: form.2,
        layout: form.3,
        bytes,
        address,
        start,
        extent,
        relation: shared.0,
        of: shared.1,
        device: shared.2,
    })
}

fn parameter() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        (-1_000_000i32..1_000_000).prop_map(|n| Value::from(f64::from(n) / 64.0)),
        text().prop_map(Value::from),
    ]
}

pub(crate) fn span() -> impl Strategy<Value = SpanRow> {
    let identity = (any::<[u32; 4]>(), any::<Option<u32>>(), text());
    let life = (any::<[i64; 2]>(), any::<Option<i64>>(), any::<Option<u64>>());
    let arrays = (prop::collection::vec(array(), 0..3), prop::collection::vec(array(), 0..3));
    let params = prop::collection::vec((text(), parameter()), 0..4);
    let resident = |numbers: [u64; 5]| SpanResident {
        start: numbers[0],
        file: numbers[1],
        live: numbers[2],
        untouched: numbers[3],
        mapped: numbers[4],
    };
    let resident = prop::option::of(any::<[u64; 5]>().prop_map(resident));
    (identity, life, arrays, params, any::<[u64; 8]>(), any::<[Option<u64>; 9]>(), resident).prop_map(
        |(identity, life, arrays, params, numbers, garbage, at_resident_peak)| SpanRow {
            span: identity.0[0],
            parent: identity.1,
            process: identity.0[1],
            thread: identity.0[2],
            operator: identity.2,
            call: identity.0[3],
            start_ns: life.0[0],
            end_ns: life.1,
            inputs: arrays.0,
            outputs: arrays.1,
            params: params.into_iter().collect(),
            input_bytes: numbers[0],
            output_bytes: numbers[1],
            working_peak_bytes: numbers[2],
            net_peak_bytes: numbers[3],
            once_bytes: numbers[4],
            resident_peak_bytes: life.2,
            at_resident_peak,
            allocations: numbers[5],
            peak_ns: life.0[1],
            peak_site: garbage[3],
            temporaries: numbers[6],
            temporary_bytes: numbers[7],
            temporary_peak_bytes: garbage[4],
            kept_bytes: garbage[5],
            pinned_bytes: garbage[6],
            gc_independent_bytes: garbage[0],
            gc_independent_upper_bytes: garbage[1],
            garbage_at_peak_bytes: garbage[2],
            device_peak_bytes: garbage[7],
            device_driver_peak_bytes: garbage[8],
        },
    )
}

pub(crate) fn meta() -> impl Strategy<Value = Meta> {
    let texts = prop::collection::vec(text(), 5);
    let lists = (prop::collection::vec(text(), 0..4), prop::collection::vec((text(), text()), 0..4));
    (texts, lists, any::<[u64; 8]>(), any::<[i64; 3]>(), any::<[Option<u32>; 4]>()).prop_map(
        |(texts, lists, numbers, times, options)| Meta {
            memtrace: texts[0].clone(),
            command: lists.0.clone(),
            cwd: texts[1].clone(),
            host: texts[2].clone(),
            kernel: texts[3].clone(),
            cpus: numbers[0] as u32,
            start_unix_ns: times[0],
            duration_ns: times[1],
            clock: texts[4].clone(),
            recorded: lists.1.into_iter().collect(),
            lost: Lost {
                events: numbers[1],
                late_events: numbers[2],
                unseen_releases: numbers[3],
                kernel_events: numbers[0],
                samples: numbers[6],
            },
            exit: options[0].map(|exit| exit as i32),
            peak: Peak {
                live_bytes: numbers[4],
                heap_bytes: numbers[5],
                mapped_bytes: numbers[7],
                resident_bytes: numbers[6],
                resident_sum_bytes: numbers[5],
                peak_ns: times[2],
                gc_independent_bytes: options[1].map(u64::from),
                gc_independent_upper_bytes: options[2].map(u64::from),
                garbage_at_peak_bytes: options[3].map(u64::from),
                device_driver_bytes: options[1].map(u64::from),
                device_used_bytes: options[0].map(u64::from),
            },
            totals: Totals { allocations: numbers[7], requested_bytes: numbers[0] },
            out_of_memory: vec![OutOfMemory {
                process: numbers[3] as u32,
                pid: numbers[2] as u32,
                command: texts[1].clone(),
                live_bytes: numbers[4],
                resident_bytes: numbers[5],
                limit_bytes: Some(numbers[6]),
                operators: vec![Share { name: texts[2].clone(), bytes: numbers[7] }],
                sites: vec![SiteShare { site: numbers[0], bytes: numbers[1] }],
            }],
            rows: Rows {
                min_size_bytes: numbers[1],
                folded: numbers[2],
                aggregate: numbers[3] % 2 == 0,
                ..Rows::default()
            },
            notes: lists.0,
            ..Meta::default()
        },
    )
}

pub(crate) fn site() -> impl Strategy<Value = SiteRow> {
    let untouched =
        |numbers: [u64; 3]| Untouched { blocks: numbers[0], of_bytes: numbers[1], bytes: numbers[2] };
    let untouched = prop::option::of(any::<[u64; 3]>().prop_map(untouched));
    let on_devices = any::<Option<u64>>();
    (any::<u32>(), any::<[u64; 5]>(), untouched, on_devices).prop_map(
        |(frame, numbers, untouched, on_devices)| SiteRow {
            site: numbers[0],
            frame,
            blocks: numbers[1],
            requested_bytes: numbers[2],
            peak_live_bytes: numbers[3],
            live_bytes_at_peak: numbers[4],
            untouched,
            device_bytes_at_peak: on_devices,
        },
    )
}

pub(crate) fn frame() -> impl Strategy<Value = FrameRow> {
    let texts = (text(), prop::option::of(text()), prop::option::of(text()), prop::option::of(text()));
    let numbers = (any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>(), any::<Option<u64>>());
    (texts, numbers).prop_map(|(texts, numbers)| FrameRow {
        frame: numbers.0,
        parent: numbers.1,
        kind: texts.0,
        function: texts.1,
        file: texts.2,
        line: numbers.2,
        module: texts.3,
        offset: numbers.3,
    })
}

pub(crate) fn folded() -> impl Strategy<Value = FoldedRow> {
    (any::<Option<u64>>(), kind(), any::<[u64; 4]>()).prop_map(|(site, kind, numbers)| FoldedRow {
        site,
        kind,
        blocks: numbers[0],
        requested_bytes: numbers[1],
        released: numbers[2],
        lifetime_ns: numbers[3],
    })
}
