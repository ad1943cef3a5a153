"""Classify molecules from SMILES as soluble or not, save the model, predict new molecules. Needs cgipool[chem]."""

from cgipool import GraphClassifier

soluble = [
    "CCO",
    "OCC(O)CO",
    "CC(=O)O",
    "NCC(=O)O",
    "OC1CCCCC1O",
    "CS(C)=O",
    "CC(N)=O",
    "OCCOCCO",
    "NCCO",
    "O=C(O)CC(=O)O",
]
insoluble = [
    "CCCCCCCC",
    "c1ccc2ccccc2c1",
    "CCCCCCCCCC",
    "Clc1ccccc1Cl",
    "C1CCCCC1",
    "Cc1ccccc1C",
    "CCCCCCl",
    "CCCCCCC=C",
    "CC(C)CC(C)(C)C",
]

model = GraphClassifier(method="cgi", width=16, epochs=40, lr=0.01)
model.fit(soluble + insoluble, ["soluble"] * len(soluble) + ["insoluble"] * len(insoluble))
model.save("solubility.safetensors")

for molecule in ("OCCCO", "CCCCCCCCC"):
    shares = model.predict_proba([molecule])[0].round(2)
    print(molecule, dict(zip(model.classes_.tolist(), shares.tolist(), strict=True)))
