//! The Python text that the probe has interpreters run when they start: the recorder's source, wrapped so
//! that it leaves nothing behind in `__main__` and never raises into the program.

/// Source of the recorder, four files of the Python package that are run as one.
const RECORDER: &str = concat!(
    include_str!("../../../python/memtrace/_recorder_arrays.py"),
    include_str!("../../../python/memtrace/_recorder.py"),
    include_str!("../../../python/memtrace/_recorder_natives.py"),
    include_str!("../../../python/memtrace/_recorder_gc.py"),
);

/// The text for these operators, and for a garbage collector that is to be watched (`observe`, `eager`).
pub fn python(operators: &[String], gc: Option<&str>) -> String {
    let config = serde_json::json!({ "operators": operators, "gc": gc.unwrap_or_default() });
    // Python reads JSON strings as its own: no operator name can break out of the literal.
    let source = serde_json::Value::from(RECORDER);
    let config = serde_json::Value::from(config.to_string());
    format!(
        "def _memtrace_start():\n\
         \x20   import sys\n\
         \x20   try:\n\
         \x20       module = type(sys)('_memtrace_recorder')\n\
         \x20       exec(compile({source}, '<memtrace recorder>', 'exec'), module.__dict__)\n\
         \x20       sys.modules['_memtrace_recorder'] = module\n\
         \x20       module.install(eval({config}, {{}}, {{}}))\n\
         \x20   except BaseException:\n\
         \x20       pass\n\
         _memtrace_start()\n\
         del _memtrace_start\n"
    )
}
