"""Descriptors of whole graphs against NumPy and RDKit."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs the extra chem")

from rdkit import Chem
from rdkit.Chem import Descriptors as RDKit
from rdkit.Chem import rdFingerprintGenerator

from cgipool.data import Encoder, GraphSet
from cgipool.data.descriptors import LARGEST, Descriptors, rdkit_names
from cgipool.data.further import TableBuilder
from cgipool.data.molecules import MoleculeFeaturizer
from cgipool.errors import UserError

SMILES = ["CCO", "c1ccccc1O", "CC(=O)N", "C1CCNCC1", "O=C=O", "CCCCCl", "N#CC", "[Na+].[Cl-]"]
TRAIN = np.arange(5)


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    table = TableBuilder(("tpsa",))
    for number in range(len(SMILES)):
        table.add([str(number**2) if number != 3 else "NA"])
    return table.of(MoleculeFeaturizer().graphs(SMILES))


def test_they_are_standardised_over_the_training_graphs(graphs: GraphSet) -> None:
    fitted = Descriptors.fit(graphs, TRAIN, ("tpsa",), impute=True, rdkit=True, bits=32)
    found = fitted.encode(graphs)
    molecules = [Chem.MolFromSmiles(text) for text in SMILES]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=32)
    computed = [
        [*(read(one) for name, read in RDKit.descList if "Ipc" not in name), *generator.GetCountFingerprintAsNumPy(one)]
        for one in molecules
    ]
    tpsa = np.array([0, 1, 4, np.nan, 16, 25, 36, 49])
    values = np.column_stack([tpsa, np.array(computed, dtype=float)])
    mean, scale = np.nanmean(values[TRAIN], 0), np.nanstd(values[TRAIN], 0)
    wanted = np.zeros_like(values)
    varies = scale > 1e-12
    wanted[:, varies] = (values[:, varies] - mean[varies]) / scale[varies]
    wanted[:, 1:] = wanted[:, 1:].clip(-LARGEST, LARGEST)
    np.testing.assert_allclose(found[:, varies], np.nan_to_num(wanted)[:, varies], atol=1e-4)
    assert found[3, 0] == 0.0
    assert np.abs(found[:, ~varies]).max() <= LARGEST
    assert not found[:, np.ptp(values[TRAIN], 0) == 0.0].any()
    assert found.shape == (8, 1 + len(rdkit_names()) + 32) == (8, fitted.width)


def test_what_is_not_defined_counts_as_the_mean(graphs: GraphSet, monkeypatch: pytest.MonkeyPatch) -> None:
    names = rdkit_names()
    broken = np.zeros((len(SMILES), len(names)))
    broken[:, 0] = [1.0, 2.0, np.nan, 4.0, 5.0, np.nan, 1e30, -1e30]
    monkeypatch.setattr("cgipool.data.descriptors.rdkit_values", lambda graphs, names: broken)
    found = Descriptors.fit(graphs, TRAIN, (), impute=False, rdkit=True).encode(graphs)
    assert found[[2, 5], 0].tolist() == [0.0, 0.0]
    assert found[[6, 7], 0].tolist() == [LARGEST, -LARGEST]
    np.testing.assert_allclose(found[[0, 4], 0], np.array([-2.0, 2.0]) / np.std([1.0, 2.0, 4.0, 5.0]), rtol=1e-6)


def test_a_saved_encoder_reads_them_alike(graphs: GraphSet) -> None:
    fitted = Encoder.fit(graphs, TRAIN, descriptors=("tpsa",), impute="mean", rdkit_descriptors=True, fingerprints=16)
    again = Encoder.from_json(fitted.to_json())
    assert again == fitted
    one = graphs.subset([6])
    np.testing.assert_array_equal(again.encode(one).descriptors, fitted.encode(graphs).descriptors[[6]])


def test_what_cannot_be_read(graphs: GraphSet) -> None:
    with pytest.raises(UserError, match="column 'tpsa' has no value in 1 graph, first in graph 3; impute=mean"):
        Descriptors.fit(graphs, TRAIN, ("tpsa",), impute=False)
    with pytest.raises(UserError, match="has no descriptor column 'tspa'; did you mean 'tpsa'\\? its columns: tpsa"):
        Descriptors.fit(graphs, TRAIN, ("tspa",), impute=True)
    with pytest.raises(UserError, match="has no descriptor columns 'a', 'b'; its columns: tpsa"):
        Descriptors.fit(graphs, TRAIN, ("a", "tpsa", "b"), impute=True)
    for bits, name in ((0, "rdkit_descriptors"), (8, "fingerprints")):
        with pytest.raises(UserError, match=f"{name} needs molecules, and molecules is not a set of molecules"):
            Descriptors.fit(replace(graphs, featurizer=None), TRAIN, (), False, rdkit=not bits, bits=bits)
    fitted = replace(Descriptors.fit(graphs, TRAIN, (), False, rdkit=True), rdkit=("MolWt", "Novelty"))
    with pytest.raises(UserError, match="the installed RDKit has no descriptor 'Novelty', which the model reads"):
        fitted.encode(graphs)
