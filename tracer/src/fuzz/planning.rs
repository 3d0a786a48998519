//! Models, graphs, descriptions of source, and requests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use memtrace_analysis::generic::{Dtype, Inputs, Library, Source, bound as bounded};
use memtrace_analysis::graph::{self, Graph, Libraries};
use memtrace_analysis::plan::{Extra, Minimise, Options, Workers};
use memtrace_analysis::{Model, predict};

use crate::fuzz_inputs::{Draw, seeds};

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let (_, bytes) = &seeds("corpus", "model")[0];
    Model::parse(std::str::from_utf8(bytes).expect("JSON")).expect("a model")
});

/// Shapes of that many axes.
fn shapes(axes: usize) -> [Vec<u64>; 4] {
    [1, 100, 1 << 20, u64::MAX].map(|length| vec![length; axes])
}

/// A model is anything; what it predicts is asked at shapes of every size.
pub fn model(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(model) = Model::parse(text) else { return };
    for law in &model.laws {
        let axes = law.variables.len();
        for shape in shapes(axes.min(8)) {
            let _ = predict(law, &shape).map(|prediction| prediction.formula());
            let _ = law.bytes(&shape);
            let _ = Options::new(1 << 30).recommend(law, shape);
        }
    }
    let _ = model.merge(&model).to_json();
}

/// A graph is anything; its operators may be in the model.
pub fn graph(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(graph) = Graph::parse(text) else { return };
    let options = graph::Options {
        memory_limit_bytes: Some(1 << 30),
        workers: None,
        threads_per_worker: 1,
        executor: None,
        budget_fraction: None,
        baseline_bytes: None,
    };
    let _ = options.plan(&MODEL, &Libraries::default(), &graph);
}

/// A request of chunks.
pub fn recommend(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let law = &MODEL.laws[draw.up_to(255) % MODEL.laws.len()];
    let shape = draw.numbers(4);
    let options = Options {
        device_limit_bytes: draw.maybe(Draw::number),
        workers: draw.maybe(Draw::number).map_or(Workers::Auto, Workers::Number),
        threads_per_worker: draw.number(),
        halo: draw.numbers(4),
        whole_axes: draw.numbers(4).into_iter().map(|axis| axis as usize).collect(),
        budget_fraction: draw.maybe(|draw| f64::from_bits(draw.word())),
        baseline_bytes: draw.maybe(Draw::number),
        extra: draw.maybe(Draw::number).map(|bytes| Extra::new(move |_| bytes)),
        storage_chunks: draw.maybe(|draw| draw.numbers(4)),
        aligned: draw.byte() & 1 == 1,
        minimise: [Minimise::Time, Minimise::Memory, Minimise::Tasks][draw.up_to(2)],
        ..Options::new(draw.number())
    };
    let _ = options.recommend(law, shape.clone());
    let _ = options.longest(law, shape, draw.up_to(4), draw.number());
}

/// A description of source is anything.
pub fn bound(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(source) = Source::parse(text) else { return };
    let dtype = Dtype::parse("f4").expect("a type");
    for shape in [vec![1], vec![1 << 20, 1 << 20], vec![u64::MAX; 3]] {
        let inputs =
            Inputs { shapes: vec![shape], dtypes: vec![dtype], layout: "C".into(), params: BTreeMap::new() };
        let _ = bounded(&source, Library::shipped(), &inputs);
    }
}
