"""The errors of the runtime: their numbers, names and texts.

What it is   `NAMES` and `TEXTS`. Since CUDA 10.1, an error of the driver has the same number in the runtime, with
             another name and the same text.
How          the machine code of the library tells the texts without Python, because cudaGetErrorString must return a
             text at any time, also in a forked child.
Source       driver_types.h, enum cudaError; the texts of cudaGetErrorString of CUDA 13.0
Read next    state.py
"""

from __future__ import annotations

from ..machine.codes import TEXTS as DRIVER_TEXTS

__all__ = ["NAMES", "TEXTS"]

# those that only the runtime has
_OWN = """
  9 InvalidConfiguration        invalid configuration argument
 12 InvalidPitchValue           invalid pitch argument
 13 InvalidSymbol               invalid device symbol
 16 InvalidHostPointer          invalid host pointer
 17 InvalidDevicePointer        invalid device pointer
 18 InvalidTexture              invalid texture reference
 19 InvalidTextureBinding       texture is not bound to a pointer
 20 InvalidChannelDescriptor    invalid channel descriptor
 21 InvalidMemcpyDirection      invalid copy direction for memcpy
 22 AddressOfConstant           invalid address of constant
 23 TextureFetchFailed          fetch from texture failed
 24 TextureNotBound             cannot fetch from a texture that is not bound
 25 SynchronizationError        incorrect use of __syncthreads()
 26 InvalidFilterSetting        linear filtering not supported for non-float type
 27 InvalidNormSetting          read as normalized float not supported for data type
 28 MixedDeviceExecution        device emulation mode and device execution mode cannot be mixed
 31 NotYetImplemented           feature not yet implemented
 32 MemoryValueTooLarge         memory size or pointer value too large to fit in 32 bit
 35 InsufficientDriver          CUDA driver version is insufficient for CUDA runtime version
 37 InvalidSurface              invalid surface reference
 43 DuplicateVariableName       duplicate global variable looked up by string name
 44 DuplicateTextureName        duplicate texture looked up by string name
 45 DuplicateSurfaceName        duplicate surface looked up by string name
 49 IncompatibleDriverContext   incompatible driver context
 52 MissingConfiguration        __global__ function call is not configured
 53 PriorLaunchFailure          unspecified launch failure in prior launch
 65 LaunchMaxDepthExceeded      launch would exceed maximum depth of nested launches
 66 LaunchFileScopedTex         launch failed because kernel uses unsupported, file-scoped textures (texture objects
    are supported)
 67 LaunchFileScopedSurf        launch failed because kernel uses unsupported, file-scoped surfaces (surface objects
    are supported)
 68 SyncDepthExceeded           cudaDeviceSynchronize failed because caller's grid depth exceeds
    cudaLimitDevRuntimeSyncDepth
 69 LaunchPendingCountExceeded  launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount
 98 InvalidDeviceFunction       invalid device function
103 SoftwareValidityNotEstablished integrity checks failed
127 StartupFailure              startup failure in cuda runtime
"""
_SHARED = """
0:Success 1:InvalidValue 2:MemoryAllocation 3:InitializationError 4:CudartUnloading 5:ProfilerDisabled
6:ProfilerNotInitialized 7:ProfilerAlreadyStarted 8:ProfilerAlreadyStopped 34:StubLibrary 36:CallRequiresNewerDriver
46:DevicesUnavailable 100:NoDevice 101:InvalidDevice 102:DeviceNotLicensed 200:InvalidKernelImage
201:DeviceUninitialized 205:MapBufferObjectFailed 206:UnmapBufferObjectFailed 207:ArrayIsMapped 208:AlreadyMapped
209:NoKernelImageForDevice 210:AlreadyAcquired 211:NotMapped 212:NotMappedAsArray 213:NotMappedAsPointer
214:ECCUncorrectable 215:UnsupportedLimit 216:DeviceAlreadyInUse 217:PeerAccessUnsupported 218:InvalidPtx
219:InvalidGraphicsContext 220:NvlinkUncorrectable 221:JitCompilerNotFound 222:UnsupportedPtxVersion
223:JitCompilationDisabled 224:UnsupportedExecAffinity 225:UnsupportedDevSideSync 226:Contained 300:InvalidSource
301:FileNotFound 302:SharedObjectSymbolNotFound 303:SharedObjectInitFailed 304:OperatingSystem
400:InvalidResourceHandle 401:IllegalState 402:LossyQuery 500:SymbolNotFound 600:NotReady 700:IllegalAddress
701:LaunchOutOfResources 702:LaunchTimeout 703:LaunchIncompatibleTexturing 704:PeerAccessAlreadyEnabled
705:PeerAccessNotEnabled 708:SetOnActiveProcess 709:ContextIsDestroyed 710:Assert 711:TooManyPeers
712:HostMemoryAlreadyRegistered 713:HostMemoryNotRegistered 714:HardwareStackError 715:IllegalInstruction
716:MisalignedAddress 717:InvalidAddressSpace 718:InvalidPc 719:LaunchFailure 720:CooperativeLaunchTooLarge
721:TensorMemoryLeak 800:NotPermitted 801:NotSupported 802:SystemNotReady 803:SystemDriverMismatch
804:CompatNotSupportedOnDevice 805:MpsConnectionFailed 806:MpsRpcFailure 807:MpsServerNotReady
808:MpsMaxClientsReached 809:MpsMaxConnectionsReached 810:MpsClientTerminated 811:CdpNotSupported
812:CdpVersionMismatch 900:StreamCaptureUnsupported 901:StreamCaptureInvalidated 902:StreamCaptureMerge
903:StreamCaptureUnmatched 904:StreamCaptureUnjoined 905:StreamCaptureIsolation 906:StreamCaptureImplicit
907:CapturedEvent 908:StreamCaptureWrongThread 909:Timeout 910:GraphExecUpdateFailure 911:ExternalDevice
912:InvalidClusterSize 913:FunctionNotLoaded 914:InvalidResourceType 915:InvalidResourceConfiguration 999:Unknown
"""
# A number is that of the driver's error, and the text is that of the driver.

NAMES: dict[int, bytes] = {}
TEXTS: dict[int, bytes] = {}
for _line in _OWN.strip().replace("\n    ", " ").splitlines():
    _code, _name, _text = _line.split(None, 2)
    NAMES[int(_code)], TEXTS[int(_code)] = f"cudaError{_name}".encode(), _text.encode()
for _pair in _SHARED.split():
    _code, _, _name = _pair.partition(":")
    if _code == "0":
        NAMES[int(_code)] = b"cudaSuccess"
    else:
        NAMES[int(_code)] = f"cudaError{_name}".encode()
    TEXTS[int(_code)] = DRIVER_TEXTS[int(_code)]
