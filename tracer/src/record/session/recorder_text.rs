//! The Python text that the probe has interpreters run when they start: the recorder's source,
//! wrapped so that it leaves nothing behind in `__main__` and never raises into the program.

use crate::record::sites::RECORDER_FILE;

/// Source of the recorder, files of the Python package that are run as one.
const RECORDER: &str = concat!(
    include_str!("../../../../python/memtrace/_recorder/texts.py"),
    include_str!("../../../../python/memtrace/_recorder/arrays.py"),
    include_str!("../../../../python/memtrace/_recorder/ndarrays.py"),
    include_str!("../../../../python/memtrace/_recorder/scalars.py"),
    include_str!("../../../../python/memtrace/_recorder/recursion.py"),
    include_str!("../../../../python/memtrace/_recorder/spans.py"),
    include_str!("../../../../python/memtrace/_recorder/operators.py"),
    include_str!("../../../../python/memtrace/_recorder/errors.py"),
    include_str!("../../../../python/memtrace/_recorder/calls.py"),
    include_str!("../../../../python/memtrace/_recorder/monitoring.py"),
    include_str!("../../../../python/memtrace/_recorder/profiler.py"),
    include_str!("../../../../python/memtrace/_recorder/install.py"),
    include_str!("../../../../python/memtrace/_recorder/imports.py"),
    include_str!("../../../../python/memtrace/_recorder/natives.py"),
    include_str!("../../../../python/memtrace/_recorder/context.py"),
    include_str!("../../../../python/memtrace/_recorder/entries.py"),
    include_str!("../../../../python/memtrace/_recorder/libraries.py"),
    include_str!("../../../../python/memtrace/_recorder/dask.py"),
    include_str!("../../../../python/memtrace/_recorder/torch.py"),
    include_str!("../../../../python/memtrace/_recorder/cupy.py"),
    include_str!("../../../../python/memtrace/_recorder/jax.py"),
    include_str!("../../../../python/memtrace/_recorder/gc.py"),
);

/// Packages with automatic spans of their own, whatever modules are watched.
const FRAMEWORKS: [&str; 3] = ["dask", "jax", "torch"];

/// A package whose pools report their blocks, spans or not.
const POOLS: &str = "cupy";

/// What Python programs are watched for.
pub struct Watched<'a> {
    /// Functions that are operators, `module:function`.
    pub operators: &'a [String],
    /// Modules whose functions are operators when an argument is large; `None`: no automatic spans
    /// at all.
    pub automatic: Option<&'a [String]>,
    /// How the garbage collector is watched: `observe`, `eager`.
    pub gc: Option<&'a str>,
}

/// The text for what is watched. The recorder is compiled, some milliseconds of an interpreter's
/// time, when it starts only if there are operators or a collector to watch; else when the program
/// first imports a package with automatic spans or with pools of device memory, or uses the
/// recorder's module (`@memtrace.operator`, `memtrace.span`). Of two threads that do so at the same
/// time, one loads the text that counts (`setdefault`): there is one set of operators. A public
/// name, which stays the same function, is found in the module itself from its first use on.
pub fn python<'a>(watched: &Watched<'a>) -> String {
    let Watched { operators, automatic, gc } = watched;
    let mut config = serde_json::json!({ "operators": operators, "gc": gc.unwrap_or_default() });
    if let Some(modules) = automatic {
        config["automatic"] = serde_json::json!(modules);
    }
    let first = |module: &'a String| module.split('.').next().unwrap_or_default();
    let mut packages = vec![POOLS];
    if let Some(modules) = automatic {
        packages.extend(modules.iter().map(first).chain(FRAMEWORKS));
    }
    let packages = serde_json::json!(packages);
    // Python reads JSON strings as its own: no operator name can break out of the literal.
    let source = serde_json::Value::from(RECORDER);
    let config = serde_json::Value::from(config.to_string());
    let install =
        if !operators.is_empty() || gc.is_some() { "install()" } else { "sys.meta_path.insert(0, Awaits())" };
    let text = format!(
        "def _memtrace_start():\n\
         \x20   import sys\n\
         \x20   class Recorder(type(sys)):\n\
         \x20       def __getattr__(self, name):\n\
         \x20           if name[:2] == '__':\n\
         \x20               raise AttributeError(name)\n\
         \x20           if '_loaded' not in self.__dict__:\n\
         \x20               text = {{'__name__': self.__name__}}\n\
         \x20               exec(compile({source}, '{RECORDER_FILE}', 'exec'), text)\n\
         \x20               self.__dict__.setdefault('_loaded', text)\n\
         \x20           if name not in self._loaded:\n\
         \x20               raise AttributeError(name)\n\
         \x20           value = self._loaded[name]\n\
         \x20           if name[0] != '_':\n\
         \x20               self.__dict__[name] = value\n\
         \x20           return value\n\
         \x20   def install():\n\
         \x20       recorder.install(eval({config}, {{}}, {{}}))\n\
         \x20   class Awaits:\n\
         \x20       def find_spec(self, name, path=None, target=None):\n\
         \x20           if name not in {packages}:\n\
         \x20               return None\n\
         \x20           try:\n\
         \x20               sys.meta_path.remove(self)\n\
         \x20               install()\n\
         \x20               return sys.meta_path[0].find_spec(name, path, target)\n\
         \x20           except Exception:\n\
         \x20               return None\n\
         \x20   try:\n\
         \x20       sys.modules['_memtrace_recorder'] = recorder = Recorder('_memtrace_recorder')\n\
         \x20       {install}\n\
         \x20   except BaseException:\n\
         \x20       pass\n\
         _memtrace_start()\n"
    );
    // In a namespace of its own: what outlives the program's must not lead to it (from 3.10
    // `__del__` runs as late as the last of what leads there).
    format!("exec({}, {{}})\n", serde_json::Value::from(text))
}
