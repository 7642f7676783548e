# Every public name, once. A new method is one file and one line here: `load` finds methods by this list.
from . import solvers as solvers
from ._core.history import History as History
from ._core.history import Journal as Journal  # History, by the name that other methods had for it.
from ._core.input_checks import Whole as Whole
from ._core.model_file import ModelFormatError as ModelFormatError
from ._core.model_file import load as load
from .methods.clap import CLAP as CLAP
from .methods.clip_adapter import ClipAdapter as ClipAdapter
from .methods.coop import CoOp as CoOp
from .methods.cross_modal_probe import CrossModalProbe as CrossModalProbe
from .methods.gda import GDA as GDA
from .methods.kgcoop import KgCoOp as KgCoOp
from .methods.linear_adapter import LinearAdapter as LinearAdapter
from .methods.linear_probe import LinearProbe as LinearProbe
from .methods.plot import PLOT as PLOT
from .methods.prograd import ProGrad as ProGrad
from .methods.proker import ProKeR as ProKeR
from .methods.ss_text import SSText as SSText
from .methods.timo import TIMO as TIMO
from .methods.tip_adapter import TipAdapter as TipAdapter
from .methods.tip_adapter_f import TipAdapterF as TipAdapterF
from .methods.tip_adapter_f_star import TipAdapterFStar as TipAdapterFStar
from .methods.zero_shot import ZeroShot as ZeroShot
from .probe import curvature as curvature
from .probe import objective as objective
from .probe import starts as starts
from .probe.estimator import LPPlusPlus as LPPlusPlus
from .probe.parallel import fit_many as fit_many

__version__: str
