"""The parts of RDKit in use; without it, one line that says how to get it."""

from cgipool.errors import UserError

try:
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdCIPLabeler, rdMolDescriptors
    from rdkit.Chem.Scaffolds import MurckoScaffold
except ImportError:
    raise UserError("molecules need RDKit: pip install 'cgipool[chem]'") from None

__all__ = ["Chem", "MurckoScaffold", "rdBase", "rdCIPLabeler", "rdMolDescriptors"]
